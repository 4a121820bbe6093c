"""One checkpoint file on this machine, read without running code from it."""
import contextlib
import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.logging import print_log
from mmengine.runner.checkpoint import get_torch_safe_globals
from torch.serialization import add_safe_globals, clear_safe_globals, get_safe_globals

from mmflatten.checkpoints.safe_pickle import load_without_code

_NUMPY_TYPES = [type(np.dtype(code)) for code in np.typecodes['AllInteger'] + np.typecodes['AllFloat'] + '?']


def read_file(path: Path, map_location: Any = None) -> Any:
    """What a file of PyTorch holds. Objects of foreign classes become inert stand-ins, and a warning names them.

    Raises:
        ValueError: it cannot be read as a checkpoint.
    """
    try:
        with _allowed([*get_torch_safe_globals(), *_NUMPY_TYPES]):
            return torch.load(path, map_location=map_location, weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError):  # foreign classes, or the older format cut off
        content, replaced = load_without_code(path)
    if replaced:
        print_log(f'{path}: left out objects of foreign classes, without running their code: {", ".join(replaced)}',
                  logger='current', level=logging.WARNING)
    return content


@contextlib.contextmanager
def _allowed(classes: list) -> Iterator[None]:
    """`torch.serialization.safe_globals`, which PyTorch 2.4 does not have."""
    before = get_safe_globals()
    add_safe_globals(classes)
    try:
        yield
    finally:
        clear_safe_globals()
        add_safe_globals(before)
