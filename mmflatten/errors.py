"""One-line messages for errors that end a command.

The messages of mmflatten's own errors, of a plain `ValueError` and of an `OSError` without a number are shown as they
are. Those of other libraries are shown as `Type: message`, some with a hint.
"""
import errno
import json
import re
import shutil
from pathlib import Path

import torch

from mmflatten.locate import missing_data_hint
from mmflatten.requirements import LIBRARIES

OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def explain(error: BaseException) -> str:
    """Return one line that explains an error to the user."""
    message = error_text(error)
    named = f'{type(error).__name__}: {message}' if message else f'{type(error).__name__} (without a message)'
    raised_by_library = isinstance(error, OSError) and error.errno is None  # the system's errors have a number
    if is_ours(error) or type(error) is ValueError or raised_by_library:
        return message or named
    match error:
        case KeyboardInterrupt():
            return 'interrupted'
        case json.JSONDecodeError():
            return f'a file is not JSON: {message}'
        case FileNotFoundError():
            path = error.filename or message
            return f'{path} does not exist. {missing_data_hint(path) or "Check the path."}'
        case OSError() if error.errno in OUT_OF_SPACE:
            return f'{message}; {space_hint(error.errno, error.filename)}'
        case OSError() if error.filename is not None:
            return f'{error.filename}: {error.strerror}'
        case ImportError(name=str(module)):
            library = LIBRARIES.get(module.partition('.')[0])
            name = {'sklearn': 'scikit-learn'}.get(module, module)  # on PyPI
            return f'{message}. {library.install_command if library else f"Install {name} or check the spelling"}'
        case ImportError():
            return message
        case torch.cuda.OutOfMemoryError():
            return (f'the GPU ran out of memory ({message.split(". ")[0]}). Lower train_dataloader.batch_size, train '
                    'with --amp, or set with_cp=True in the backbone.')
        case RuntimeError() if message.startswith('DataLoader worker'):  # PyTorch 2.15 has no class for this error
            return (f'{message}. The usual cause is full memory or /dev/shm: lower train_dataloader.num_workers or '
                    'train_dataloader.batch_size.')
    return named


def is_ours(error: BaseException) -> bool:
    """Return True for an error class of mmflatten, whose message is written for the user."""
    return type(error).__module__.partition('.')[0] == 'mmflatten'


def error_text(error: BaseException) -> str:
    """Return the message of an error on one line. For an error in a loader process, it is the original message."""
    # str(KeyError('a')) is "'a'", with quotes
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    carried = re.match(r'Caught (\w+) in ', text)
    if carried:  # PyTorch passes the text of the traceback, which ends in the error
        text = re.split(rf'^(?:[\w.]+\.)?{carried[1]}: ', text, flags=re.MULTILINE)[-1]
    return ' '.join(text.split())


def space_hint(number: int | None, path: str | Path | None) -> str:
    """Return a fix for a failure to write `path` with the errno `number`, with the free space."""
    if number == errno.EFBIG:
        return 'the file size limit is reached. Raise it (ulimit -f) or write to another disk'
    place = Path(path or '.').absolute()
    while not place.exists():
        place = place.parent
    return f'{shutil.disk_usage(place).free / 2**20:.1f} MiB are free there. Free some space or write to another disk'
