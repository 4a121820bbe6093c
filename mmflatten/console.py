"""The terminal of a tool: one line for a failure, progress, and quiet libraries."""
import contextlib
import functools
import io
import logging
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

TRACEBACK_VARIABLE = 'MMFLATTEN_TRACEBACK'
# `dist_train.sh` and `dist_test.sh` name a folder here: torchrun prints its own report after a worker's last line, so
# the script repeats the message from a file in it at the very end. Each restart of the workers has a file of its own.
ERROR_FOLDER_VARIABLE = 'MMFLATTEN_ERROR_FOLDER'
INTERRUPTED = 130  # 128 + SIGINT, as shells report it


def command_line(main: Callable[[Sequence[str]], int | None]) -> Callable[[Sequence[str] | None], int]:
    """Decorate `main(argv)` of a tool; the result takes `argv=None` for `sys.argv[1:]` and returns the exit status.

    An exception becomes one last line on the standard error (see `errors.explain`). The full traceback goes to the
    run's log file, and to the screen with `--traceback` or `MMFLATTEN_TRACEBACK=1`. Ctrl-C ends with status 130, any
    other failure with 1.
    """

    @functools.wraps(main)
    def run(argv: Sequence[str] | None = None) -> int:
        arguments = list(sys.argv[1:] if argv is None else argv)
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors='backslashreplace')  # names of files need not be UTF-8
        try:
            return main(arguments) or 0
        except (Exception, KeyboardInterrupt) as error:
            _report(error, '--traceback' in arguments or os.environ.get(TRACEBACK_VARIABLE, '0') not in ('', '0'))
            return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1

    return run


def _report(error: BaseException, show_traceback: bool) -> None:
    from mmflatten.errors import explain  # imports PyTorch, which a command's help does not need
    text = ''.join(traceback.format_exception(error))
    log = _append_to_log(text)
    sys.stdout.flush()
    if show_traceback:
        sys.stderr.write(text)
    elif not isinstance(error, KeyboardInterrupt):  # after Ctrl-C the user knows why
        where = f'The full traceback is in {log}' if log else f'{TRACEBACK_VARIABLE}=1 shows the full traceback'
        sys.stderr.write(where + '\n')
    several = int(os.environ.get('WORLD_SIZE', '1') or 1) > 1
    line = (f'rank {os.environ.get("RANK", "?")}: ' if several else '') + explain(error)
    sys.stderr.write(line + '\n')
    sys.stderr.flush()
    folder = os.environ.get(ERROR_FOLDER_VARIABLE)
    if folder:
        # The first worker to fail is the cause and makes the file; the others are then ended by the launcher.
        with (contextlib.suppress(OSError),
              open(Path(folder, os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')), 'x', encoding='utf-8') as note):
            note.write(line + '\n')


def _append_to_log(text: str) -> str | None:
    """Append to the log file of the run, where there is one, and return its path."""
    if 'mmengine' not in sys.modules:  # nothing has run yet
        return None
    from mmengine.logging import MMLogger
    for handler in MMLogger.get_current_instance().handlers:
        if isinstance(handler, logging.FileHandler):
            with contextlib.suppress(OSError):  # a full disk must not hide the failure that is being reported
                with open(handler.baseFilename, 'a', encoding='utf-8') as log:
                    log.write(text)
                return handler.baseFilename
    return None


@contextlib.contextmanager
def own_output() -> Iterator[TextIO]:
    """The standard output, for a tool's own lines alone: what libraries print meanwhile goes to the standard error."""
    lines = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        yield lines


def timed_progress() -> Callable[[int, int, str], None]:
    """A function `say(done, total, what)` that prints '[done/total] what' and the time on the standard error."""
    start = time.monotonic()

    def say(done: int, total: int, what: str) -> None:
        seconds = time.monotonic() - start
        left = seconds / done * (total - done)
        sys.stderr.write(f'[{done}/{total}] {what}; {seconds:.0f} s so far, about {left:.0f} s left\n')
        sys.stderr.flush()

    return say


@contextlib.contextmanager
def quiet_libraries(level: int = logging.WARNING) -> Iterator[None]:
    """Hold back what OpenMMLab's constructors say below `level`; it would stand in the middle of a tool's table."""
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
