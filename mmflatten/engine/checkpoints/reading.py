"""Reading of checkpoint files on this machine: whole ones only, and without running code from them."""
import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.logging import print_log
from mmengine.runner import CheckpointLoader
from mmengine.runner.checkpoint import get_torch_safe_globals

from mmflatten.checkpoints.safe_pickle import Inert, load_without_code
from mmflatten.engine.checkpoints.files import require_whole

_NUMPY_TYPES = [type(np.dtype(code)) for code in np.typecodes['AllInteger'] + np.typecodes['AllFloat'] + '?']


def use_safe_reading() -> None:
    """Make MMEngine read local checkpoints with `load_from_local`, whoever asks: test, resume, `init_cfg`.

    MMEngine itself unpickles a file that `weights_only=True` refuses, which runs whatever the file says.
    """
    CheckpointLoader.register_scheme(prefixes='', loader=load_from_local, force=True)


def load_from_local(filename: str, map_location: Any = None) -> Any:
    """Read a checkpoint. Objects of foreign classes in it become inert stand-ins, and a warning names them.

    Raises:
        FileNotFoundError: there is no such file; MMEngine's own class, which configs and tests may rely on.
        CheckpointError: it is damaged.
        ValueError: it cannot be read as a checkpoint.
    """
    path = Path(filename).expanduser()
    if not path.exists():
        raise FileNotFoundError(f'checkpoint {path} does not exist; check the path')
    require_whole(path)
    # For good, because PyTorch 2.4 has no context for it.
    torch.serialization.add_safe_globals([*get_torch_safe_globals(), *_NUMPY_TYPES])
    try:
        return torch.load(path, map_location=map_location, weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError):  # foreign classes, or the older format cut off
        content, replaced = load_without_code(path)
    if replaced:
        print_log(f'{path}: left out objects of foreign classes, without running their code: {", ".join(replaced)}',
                  logger='current', level=logging.WARNING)
    return content


def holds_stand_ins(content: Any) -> bool:
    """Whether plain containers hold, at any depth, an object that `load_from_local` left out."""
    if isinstance(content, dict):
        return any(map(holds_stand_ins, content.values()))
    if isinstance(content, (list, tuple, set)):
        return any(map(holds_stand_ins, content))
    return isinstance(content, Inert)
