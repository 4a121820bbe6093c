"""Terminal output of commands: one-line errors, progress, and silenced libraries."""

import contextlib
import errno
import functools
import io
import json
import logging
import os
import re
import shutil
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from mmflatten.allocator import keep_freed_memory
from mmflatten.data_folders import missing_data_hint, spelling_hint
from mmflatten.requirements import LIBRARIES
from mmflatten.text import Escaped, OutputClosed, clip, printable
from mmflatten.threads import choose_wait_policy

TRACEBACK_VARIABLE = 'MMFLATTEN_TRACEBACK'
# Set by `tools/launch.sh` to a folder. torchrun prints its own report after the message of a
# worker, so the script prints the message again from a file in this folder. Each restart of the
# workers has another file.
ERROR_FOLDER_VARIABLE = 'MMFLATTEN_ERROR_FOLDER'
OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Switches of libraries that would report their use. A command sets them before it imports a
# library; values of the user win. OpenVINO has no switch: it reports that it was imported if it
# finds the package `openvino_telemetry`.
NO_TELEMETRY = {
    'DO_NOT_TRACK': '1',
    'GRADIO_ANALYTICS_ENABLED': 'False',
    'HF_HUB_DISABLE_TELEMETRY': '1',
    'MLFLOW_DISABLE_TELEMETRY': 'true',
    'NO_ALBUMENTATIONS_UPDATE': '1',
    'WANDB_ERROR_REPORTING': 'false',
}
OURS = ('mmflatten', 'mmflatten_lab')
MESSAGE = 2000  # characters of an error
OUTPUT_CLOSED = 141  # status of shells for a command whose output nobody reads: 128 + SIGPIPE


def command_line(
    main: Callable[[Sequence[str]], int | None],
) -> Callable[[Sequence[str] | None], int]:
    """Decorate `main(argv)` of a command to accept `argv=None` for `sys.argv[1:]` and to return the
    exit status.

    An exception becomes one line on the standard error (see `explain`), with status 1. SIGTERM and
    SIGHUP end a command as Ctrl-C does, with the status of shells: 130 for Ctrl-C, 143 for SIGTERM,
    129 for SIGHUP. The full traceback goes to the log file of the run, and to the standard error
    with `--traceback` or `MMFLATTEN_TRACEBACK=1`. A command whose output is no longer read, as by
    `head`, ends without a message, with status 141. Control characters are escaped, whoever printed
    them (see `Escaped`).
    """

    @functools.wraps(main)
    def run(argv: Sequence[str] | None = None) -> int:
        arguments = list(sys.argv[1:] if argv is None else argv)
        for name, value in NO_TELEMETRY.items():
            os.environ.setdefault(name, value)
        os.environ['NO_COLOR'] = '1'  # colours are escape sequences
        choose_wait_policy()
        keep_freed_memory()
        sys.modules.setdefault('openvino_telemetry', None)  # as if it were not installed
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors='backslashreplace')  # file names may not be UTF-8
        with (
            contextlib.redirect_stdout(Escaped(sys.stdout)),
            contextlib.redirect_stderr(Escaped(sys.stderr, 2 * MESSAGE)),
            _signals_interrupt(),
        ):
            try:
                status = main(arguments) or 0
                sys.stdout.flush()
                return status
            except OutputClosed as error:
                with contextlib.suppress(OSError):
                    _write_to_log(''.join(traceback.format_exception(error)))
                _discard_output()
                return OUTPUT_CLOSED
            except (Exception, KeyboardInterrupt) as error:
                wanted = os.environ.get(TRACEBACK_VARIABLE, '0') not in ('', '0')
                with contextlib.suppress(OSError):  # the terminal is gone after SIGHUP
                    _report(error, show_traceback=wanted or '--traceback' in arguments)
                return _status(error)

    return run


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, which end a command as Ctrl-C does: open files are completed, and partial
    ones deleted.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Raise `Terminated` in the main thread on SIGTERM and SIGHUP, unless they are ignored or
    handled already.

    Processes of a distributed training end at once: one that waits for another would not get to its
    Python code.
    """
    names = ('SIGTERM', 'SIGHUP')
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]  # of the system
    endings = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread() or _is_distributed():
        endings = []
    owner = os.getpid()

    def interrupt(number: int, frame: object) -> None:
        if os.getpid() != owner:  # a forked process, which the main one ends
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        for ending in endings:  # several may come at once, such as when a terminal closes
            signal.signal(ending, signal.SIG_IGN)
        raise Terminated(number)

    for number in endings:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in endings:
            signal.signal(number, signal.SIG_DFL)


def _discard_output() -> None:
    """Let Python end without a message about what is left in the buffer of the standard output."""
    with contextlib.suppress(OSError):  # it has no file descriptor
        with open(os.devnull, 'wb') as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _status(error: BaseException) -> int:
    if not isinstance(error, KeyboardInterrupt):
        return 1
    first: BaseException = error
    while first.__cause__ is not None:
        first = first.__cause__
    return 128 + (first.number if isinstance(first, Terminated) else signal.SIGINT)


def _is_distributed() -> bool:
    return int(os.environ.get('WORLD_SIZE', '1') or 1) > 1


def _report(error: BaseException, show_traceback: bool) -> None:
    text = ''.join(traceback.format_exception(error))
    log = _write_to_log(text)
    sys.stdout.flush()
    if show_traceback:
        sys.stderr.write(text)
    elif not isinstance(error, KeyboardInterrupt):  # after Ctrl-C the user knows the reason
        where = f'{TRACEBACK_VARIABLE}=1 shows the full traceback'
        if log:
            where = f'The full traceback is in {log}'
        sys.stderr.write(where + '\n')
    line = explain(error)
    if _is_distributed():
        line = f'rank {os.environ.get("RANK", "?")}: {line}'
    sys.stderr.write(line + '\n')
    sys.stderr.flush()
    folder = os.environ.get(ERROR_FOLDER_VARIABLE)
    if folder:
        note = Path(folder, os.environ.get('TORCHELASTIC_RESTART_COUNT', '0'))
        # The first worker to fail creates the file; the launcher then stops the others.
        with contextlib.suppress(OSError), open(note, 'x', encoding='utf-8') as file:
            Escaped(file).write(line + '\n')


def _write_to_log(text: str) -> str | None:
    """Append text to the log files of the run, and return the path of the last one."""
    if 'mmengine.dist' not in sys.modules:  # no run has started: a logger imports it, with PyTorch
        return None
    from mmengine.logging import MMLogger

    log = None
    for handler in MMLogger.get_current_instance().handlers:
        if not isinstance(handler, logging.FileHandler):
            continue
        with contextlib.suppress(OSError):  # a full disk must not hide the error
            with open(handler.baseFilename, 'a', encoding='utf-8') as file:
                file.write(text)
            log = handler.baseFilename
    return log


def explain(error: BaseException) -> str:
    """Return one line that explains an error to the user.

    The messages of mmflatten's own errors, of a plain `ValueError` and of an `OSError` without a
    number are shown as they are. Those of other libraries are shown as `Type: message`, some with a
    hint.
    """
    message = error_text(error)
    kind = type(error).__name__
    named = f'{kind}: {message}' if message else f'{kind} (without a message)'
    # the system's errors have a number
    raised_by_library = isinstance(error, OSError) and error.errno is None
    if is_ours(error) or type(error) is ValueError or raised_by_library:
        return message or named
    for error_class, describe in _EXPLANATIONS.items():
        if isinstance(error, error_class):
            explanation = describe(error, message)
            return named if explanation is None else explanation
    return named


def _explain_interrupt(error: KeyboardInterrupt, message: str) -> str:
    return 'interrupted'


def _explain_json_error(error: json.JSONDecodeError, message: str) -> str:
    return f'a file is not JSON: {message}'


def _explain_missing_file(error: FileNotFoundError, message: str) -> str:
    path = error.filename or message
    hint = missing_data_hint(path)
    if hint is None:
        spelling = spelling_hint(os.path.basename(os.fsdecode(path)))
        hint = f'Check the path: {spelling}.' if spelling else 'Check the path.'
    return f'{path} does not exist. {hint}'


def _explain_system_error(error: OSError, message: str) -> str | None:
    place = '' if error.filename is None else f'{error.filename}: '
    if error.errno in OUT_OF_SPACE:
        return f'{place}{error.strerror}; {space_hint(error.errno, error.filename)}'
    return None if error.filename is None else f'{place}{error.strerror}'


def _explain_import_error(error: ImportError, message: str) -> str:
    if error.name is None:
        return message
    if error.name == 'cv2':
        return (
            f"{message}. It comes with the extra of a task: pip install 'mmflatten[cls]', or det,"
            ' seg, stereo'
        )
    library = LIBRARIES.get(error.name.partition('.')[0])
    if library:
        return f'{message}. {library.install_command}'
    name = {'sklearn': 'scikit-learn'}.get(error.name, error.name)  # on PyPI
    return f'{message}. Install {name} or check the spelling'


def _explain_runtime_error(error: RuntimeError, message: str) -> str | None:
    import torch  # --help does not need it

    if isinstance(error, torch.cuda.OutOfMemoryError):
        # without the state of the allocator
        reason = '. '.join(message.split('. ')[:2]).rstrip('.')
        return (
            f'the GPU ran out of memory ({reason}). Lower the batch size or the image size, or '
            'train with --amp or --cfg-options model.backbone.with_cp=True.'
        )
    # PyTorch 2.15 has no class for this error
    if message.startswith('DataLoader worker'):
        return (
            f'{message}. The usual cause is full memory or /dev/shm: lower'
            ' train_dataloader.num_workers or train_dataloader.batch_size.'
        )
    return None


# The first class that matches explains the error; None leaves it at its own message.
_EXPLANATIONS: dict[type[BaseException], Callable[[Any, str], str | None]] = {
    KeyboardInterrupt: _explain_interrupt,
    json.JSONDecodeError: _explain_json_error,
    FileNotFoundError: _explain_missing_file,
    OSError: _explain_system_error,
    ImportError: _explain_import_error,
    RuntimeError: _explain_runtime_error,
}


def is_ours(error: BaseException) -> bool:
    """Return True for an error class of mmflatten or its lab, whose message is written for the
    user.
    """
    return type(error).__module__.partition('.')[0] in OURS


def error_text(error: BaseException) -> str:
    """Return the message of an error on one printable line of at most `MESSAGE` characters.

    For an error in a loader process, it is the original message.
    """
    # str(KeyError('a')) is "'a'", with quotes
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    carried = re.match(r'Caught (\w+) in ', text)
    if carried:  # PyTorch passes the text of the traceback, which ends in the error
        text = re.split(rf'^(?:[\w.]+\.)?{carried[1]}: ', text, flags=re.MULTILINE)[-1]
    return clip(printable(' '.join(text.split())), MESSAGE)


def space_hint(number: int | None, path: str | Path | None) -> str:
    """Return a fix for a failure to write `path` with the errno `number`, with the free space if it
    has a path.
    """
    if number == errno.EFBIG:
        return 'the file size limit is reached. Raise it (ulimit -f) or write to another disk'
    if path is None:
        return 'free some space or write to another disk'
    place = Path(path).absolute()
    while not place.exists():
        place = place.parent
    return (
        f'{shutil.disk_usage(place).free / 2**20:.1f} MiB are free there. Free some space or write'
        ' to another disk'
    )


def print_progress(line: str) -> None:
    """Print progress or other news, on the standard error."""
    sys.stderr.write(f'{line}\n')
    sys.stderr.flush()


@contextlib.contextmanager
def prints_to_stderr() -> Iterator[TextIO]:
    """Yield the standard output for the lines of a command, and redirect prints of libraries to the
    standard error.
    """
    lines = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        yield lines


@contextlib.contextmanager
def quiet_libraries(level: int = logging.WARNING) -> Iterator[None]:
    """Hide log messages of OpenMMLab below `level`, and warnings, which would interrupt the output
    of a command.
    """
    from mmengine.logging import MMLogger

    logger = MMLogger.get_current_instance()
    before = logger.level
    logger.setLevel(level)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            yield
    finally:
        logger.setLevel(before)


@contextlib.contextmanager
def quiet_decoders() -> Iterator[None]:
    """Hide what OpenCV, libpng and libjpeg print about broken images; `sys.stderr` still works.

    The last two write to file descriptor 2, which leads nowhere inside this context, in all
    threads.
    """
    import cv2  # mmcv brings it, which not every command needs

    # OpenCV has it in one of two places, by version.
    has_own = hasattr(cv2, 'setLogLevel')
    set_log_level = cv2.setLogLevel if has_own else cv2.utils.logging.setLogLevel
    with contextlib.ExitStack() as stack:
        stack.callback(set_log_level, set_log_level(0))
        before, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        stack.callback(os.close, before)
        if getattr(sys.stderr, 'stream', sys.stderr) is sys.__stderr__:  # of a command, too
            sys.stderr.flush()
            stack.enter_context(
                contextlib.redirect_stderr(Escaped(os.fdopen(os.dup(2), 'w', buffering=1)))
            )
        os.dup2(nowhere, 2)
        os.close(nowhere)
        stack.callback(os.dup2, before, 2)
        yield
