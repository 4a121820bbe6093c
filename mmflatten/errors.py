"""The last line of a tool that failed.

Errors of mmflatten carry their words where they are raised, and so do a plain `ValueError` and an `OSError` without a
number. Those of other libraries are shown as `Type: message`; a row of the table says more where more is known.
"""
import errno
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import torch

from mmflatten.locate import missing_data_hint
from mmflatten.requirements import LIBRARIES

DISTRIBUTIONS = {'sklearn': 'scikit-learn'}  # packages that pip knows by another name
OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def explain(error: BaseException) -> str:
    """Say in one line why a tool failed."""
    message = error_text(error)
    by_hand = isinstance(error, OSError) and error.errno is None  # the system's have a number
    if is_ours(error) or type(error) is ValueError or by_hand:
        return message or _named(error, message)
    for kind, describe in TABLE:
        if isinstance(error, kind):
            return describe(error, message)
    return _named(error, message)


def is_ours(error: BaseException) -> bool:
    """Whether the error is of a class of mmflatten, whose message is written for the user."""
    return type(error).__module__.partition('.')[0] == 'mmflatten'


def error_text(error: BaseException) -> str:
    """What an error says, on one line; for one that crossed over from a data-loading process, what it said there."""
    # str(KeyError('a')) is "'a'"; its argument is the text itself.
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    carried = re.match(r'Caught (\w+) in ', text)
    if carried:  # PyTorch hands over the text of the traceback, whose last error comes last
        text = re.split(rf'^(?:[\w.]+\.)?{carried[1]}: ', text, flags=re.MULTILINE)[-1]
    return ' '.join(text.split())


def space_hint(number: int | None, path: str | Path | None) -> str:
    """How to go on after writing `path` failed; for a full disk (`number` is its errno) with how much is free there."""
    if number == errno.EFBIG:
        return 'files may not be larger here; raise the limit (ulimit -f) or write to another disk'
    place = Path(path or '.').absolute()
    while not place.exists():
        place = place.parent
    return f'{shutil.disk_usage(place).free / 2**20:.1f} MiB are free there; make room or write to another disk'


def _named(error: BaseException, message: str) -> str:
    return f'{type(error).__name__}: {message}' if message else f'{type(error).__name__}, without a message'


def _missing_file(error: OSError, message: str) -> str:
    path = error.filename or message
    return f'{path} does not exist; {missing_data_hint(path) or "check the path"}'


def _os_error(error: OSError, message: str) -> str:
    if error.errno in OUT_OF_SPACE:
        return f'{message}; {space_hint(error.errno, error.filename)}'
    return f'{error.filename}: {error.strerror}' if error.filename is not None else _named(error, message)


def _import_error(error: ImportError, message: str) -> str:
    library = LIBRARIES.get((error.name or '').partition('.')[0])
    name = DISTRIBUTIONS.get(error.name, error.name)
    fix = library.install_command if library else f'install {name} or check the spelling'
    return f'{message}; {fix}' if error.name else message


def _out_of_memory(error: BaseException, message: str) -> str:
    return (f'the GPU ran out of memory ({message.split(". ")[0]}); lower train_dataloader.batch_size, train with '
            '--amp, or set with_cp=True in the backbone')


def _runtime_error(error: RuntimeError, message: str) -> str:
    if message.startswith('DataLoader worker'):  # PyTorch has no class of its own for it
        return (f'{message}; as a rule memory or /dev/shm ran out: lower train_dataloader.num_workers or '
                'train_dataloader.batch_size')
    return _named(error, message)


# The first row whose type fits describes the error.
TABLE: tuple[tuple[type[BaseException], Callable[..., str]], ...] = (
    (KeyboardInterrupt, lambda error, message: 'interrupted'),
    (json.JSONDecodeError, lambda error, message: f'a file is not JSON: {message}'),
    (FileNotFoundError, _missing_file),
    (OSError, _os_error),
    (ImportError, _import_error),
    (torch.cuda.OutOfMemoryError, _out_of_memory),
    (RuntimeError, _runtime_error),
)
