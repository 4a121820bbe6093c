"""What a failure means, in one sentence: a table from exceptions to messages.

A message names the file, field or argument, what was received, and what mends it. Errors raised by mmflatten are
written for the reader already and pass unchanged.
"""
import errno
import json
import re
import shutil
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

from mmflatten.datasets.locate import missing_data_hint
from mmflatten.engine.build_failures import describe_key_error, describe_type_error
from mmflatten.engine.dataset_failures import describe_dataset_error
from mmflatten.engine.misfits import is_misfit_report, misfit_message

Describe = Callable[[BaseException], str | None]

OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_TOOLS = Path(__file__).resolve().parents[2] / 'tools'
_DATA_FUNCTIONS = {'build_dataloader', 'full_init', 'load_data_list', 'load_annotations'}
_FILE_LOCALS = ('annotation_file', 'ann_file', 'local_path', 'file', 'filename')
_CHECKPOINT_LOCALS = ('filename', 'checkpoint')


def explain(error: BaseException) -> str:
    """Say in one sentence why a tool failed."""
    root = root_cause(error)
    if is_for_reader(root):
        return worker_message(root) or str(root)
    for kind, describe in TABLE:
        if isinstance(root, kind):
            message = describe(root)
            if message:
                return message
    return _describe_anything(root)


def root_cause(error: BaseException) -> BaseException:
    """Follow the chain of causes to the exception that says most.

    MMEngine re-raises errors of a builder or a hook as the same type with its own words around them; those wrappers
    are peeled.
    """
    while not is_for_reader(error):
        inner = error.__cause__ or error.__context__
        if type(inner) is not type(error) or str(inner) not in str(error):
            break
        error = inner
    return error


def is_for_reader(error: BaseException) -> bool:
    """Whether the message was written by mmflatten or by a tool of this project."""
    if type(error).__module__.split('.')[0] == 'mmflatten':
        return True
    frames = list(_frames(error))
    if not frames or not str(error):
        return False
    ours = (frames[-1].f_globals.get('__name__', '').split('.')[0] == 'mmflatten'
            or _TOOLS in Path(frames[-1].f_code.co_filename).parents)
    # A `raise` of ours carries words for the reader; an operator that failed on a line of ours does not.
    return ours and traceback.extract_tb(error.__traceback__)[-1].line.startswith('raise ')


def worker_message(error: BaseException) -> str | None:
    """Take the message out of an error that PyTorch carried over from a data-loading process, else None."""
    carried = re.match(r'Caught (\w+) in ', _text(error))
    if carried is None:
        return None
    lines = re.split(rf'^(?:[\w.]+\.)?{carried[1]}: ', _text(error), flags=re.MULTILINE)
    return lines[-1].strip() if len(lines) > 1 else None


def _text(error: BaseException) -> str:
    # str(KeyError('a')) is "'a'", with newlines escaped; its argument is the text itself.
    return error.args[0] if error.args and isinstance(error.args[0], str) else str(error)


def _frames(error: BaseException) -> Iterator[FrameType]:
    for frame, _ in traceback.walk_tb(error.__traceback__):
        yield frame


def _describe_missing_file(error: BaseException) -> str | None:
    path = getattr(error, 'filename', None)
    if path is None:
        quoted = re.search(r"No such file or directory: '([^']+)'", _text(error))
        if quoted is None:
            return None
        path = quoted[1]
    if any(type(frame.f_locals.get('self')).__name__.endswith('Metric') for frame in _frames(error)):
        return (f'{path} does not exist, and the metric reads it by itself: set val_evaluator.ann_file and '
                'test_evaluator.ann_file to the annotations of the data set')
    in_worker = worker_message(error) is not None
    if in_worker or any(frame.f_code.co_name in _DATA_FUNCTIONS for frame in _frames(error)):
        hint = missing_data_hint(path) or 'check data_root and data_prefix in the config'
        return f'data not found: {path} does not exist; {hint}'
    return f'{path} does not exist; check the path'


def _describe_os_error(error: BaseException) -> str | None:
    if error.errno in OUT_OF_SPACE:
        return f'{error.strerror} while writing {error.filename or "a file"}; {mend_space(error.errno, error.filename)}'
    if isinstance(error, FileExistsError) and error.filename is not None:
        return f'{error.filename} is a file where a folder is to be made; name another folder'
    if error.filename is not None:
        return f'{error.filename}: {error.strerror}'
    return None


def mend_space(number: int | None, path: str | None) -> str:
    """What mends a failed writing of `path`; for a full disk (`number` is its errno) with how much is free there."""
    if number == errno.EFBIG:
        return 'files may not be larger here; raise the limit (ulimit -f) or write to another disk'
    place = Path(path or '.').absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free / 2**20
    return f'{free:.1f} MiB are free there; make room or write to another disk'


def _describe_json(error: BaseException) -> str:
    return f'annotation file {_file_being_read(error)} is not JSON: {error}; make or download it again'


def _describe_encoding(error: BaseException) -> str:
    return f'file {_file_being_read(error)} is not text in UTF-8: {error}; make or download it again'


def _describe_syntax(error: BaseException) -> str:
    return (f'config {_file_being_read(error)}, line {error.lineno}: {error.msg}, at: '
            f'{(error.text or "").strip()}; mend that line')


def _file_being_read(error: BaseException, names: Sequence[str] = _FILE_LOCALS) -> str:
    """Path held by the function nearest to the failure: parsers are given the text and do not know where it is from."""
    for frame in reversed(list(_frames(error))):
        for name in names:
            path = frame.f_locals.get(name)
            if isinstance(path, (str, Path)) and not str(path).startswith('<'):
                return str(path)
    return '(of unknown name)'


def _describe_runtime_error(error: BaseException) -> str | None:
    text = str(error)
    if is_misfit_report(text):
        return misfit_message(_file_being_read(error, _CHECKPOINT_LOCALS), text)
    if type(error).__name__ == 'OutOfMemoryError':
        return (f'the GPU ran out of memory ({text.split(". ")[0]}); lower train_dataloader.batch_size, train with '
                '--amp, or set with_cp=True in the backbone')
    if 'DataLoader worker' in text and ('killed' in text or 'exited unexpectedly' in text):
        return (f'a data-loading process died ({text.splitlines()[0]}); memory or /dev/shm ran out, as a rule: lower '
                'train_dataloader.num_workers or batch_size')
    return None


def _describe_import_error(error: BaseException) -> str | None:
    name = getattr(error, 'name', None)
    return f'{error}; install {name} or check the spelling' if name and 'No module named' in str(error) else None


def _describe_interrupt(error: BaseException) -> str:
    return 'interrupted'


def _describe_anything(error: BaseException) -> str:
    message = worker_message(error)
    name = type(error).__name__
    if message is not None:
        return f'{name} while loading data: {message}'
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return f'{name}: {error}'
    last = frames[-1]
    place = '/'.join(Path(last.filename).parts[-3:])
    return f'{name}: {str(error) or last.line} ({place}:{last.lineno})'


# The first row whose class fits and whose function returns a message wins.
TABLE: list[tuple[type, Describe]] = [
    (KeyboardInterrupt, _describe_interrupt),
    (json.JSONDecodeError, _describe_json),
    (UnicodeDecodeError, _describe_encoding),
    (SyntaxError, _describe_syntax),
    (FileNotFoundError, _describe_missing_file),
    (NotADirectoryError, _describe_missing_file),
    (OSError, _describe_os_error),
    (TypeError, describe_type_error),
    (KeyError, describe_key_error),
    (RuntimeError, _describe_runtime_error),
    (ImportError, _describe_import_error),
    (Exception, describe_dataset_error),
]
