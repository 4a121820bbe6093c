"""Terminal output of commands: one-line errors, progress, and silenced libraries."""
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
# Set by `tools/launch.sh` to a folder. torchrun prints its own report after the message of a worker, so the script
# prints the message again from a file in this folder. Each restart of the workers has another file.
ERROR_FOLDER_VARIABLE = 'MMFLATTEN_ERROR_FOLDER'
INTERRUPTED = 130  # 128 + SIGINT, as in shells


def command_line(main: Callable[[Sequence[str]], int | None]) -> Callable[[Sequence[str] | None], int]:
    """Decorate `main(argv)` of a command to accept `argv=None` for `sys.argv[1:]` and to return the exit status.

    An exception becomes one line on the standard error (see `errors.explain`), with status 130 for Ctrl-C and 1 for
    other errors. The full traceback goes to the log file of the run, and to the standard error with `--traceback` or
    `MMFLATTEN_TRACEBACK=1`.
    """

    @functools.wraps(main)
    def run(argv: Sequence[str] | None = None) -> int:
        arguments = list(sys.argv[1:] if argv is None else argv)
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors='backslashreplace')  # file names may not be UTF-8
        try:
            return main(arguments) or 0
        except (Exception, KeyboardInterrupt) as error:
            _report(error, '--traceback' in arguments or os.environ.get(TRACEBACK_VARIABLE, '0') not in ('', '0'))
            return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1

    return run


def _report(error: BaseException, show_traceback: bool) -> None:
    from mmflatten.errors import explain  # imports PyTorch, which --help does not need
    text, log = ''.join(traceback.format_exception(error)), None
    if 'mmengine' in sys.modules:  # otherwise no run has started
        from mmengine.logging import MMLogger
        for handler in MMLogger.get_current_instance().handlers:
            if isinstance(handler, logging.FileHandler):
                with contextlib.suppress(OSError):  # a full disk must not hide the error
                    with open(handler.baseFilename, 'a', encoding='utf-8') as file:
                        file.write(text)
                    log = handler.baseFilename
    sys.stdout.flush()
    if show_traceback:
        sys.stderr.write(text)
    elif not isinstance(error, KeyboardInterrupt):  # after Ctrl-C the user knows the reason
        where = f'The full traceback is in {log}' if log else f'{TRACEBACK_VARIABLE}=1 shows the full traceback'
        sys.stderr.write(where + '\n')
    several = int(os.environ.get('WORLD_SIZE', '1') or 1) > 1
    line = (f'rank {os.environ.get("RANK", "?")}: ' if several else '') + explain(error)
    sys.stderr.write(line + '\n')
    sys.stderr.flush()
    folder = os.environ.get(ERROR_FOLDER_VARIABLE)
    if folder:
        # The first worker to fail creates the file; the launcher then stops the others.
        with (contextlib.suppress(OSError),
              open(Path(folder, os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')), 'x', encoding='utf-8') as note):
            note.write(line + '\n')


@contextlib.contextmanager
def own_output() -> Iterator[TextIO]:
    """Yield the standard output for the lines of a command, and redirect prints of libraries to the standard error."""
    lines = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        yield lines


def timed_progress() -> Callable[[int, int, str], None]:
    """Return `report(done, total, what)`, which prints '[done/total] what' and the times on the standard error."""
    start = time.monotonic()

    def report(done: int, total: int, what: str) -> None:
        seconds = time.monotonic() - start
        left = seconds / done * (total - done)
        sys.stderr.write(f'[{done}/{total}] {what}; {seconds:.0f} s elapsed, about {left:.0f} s left\n')
        sys.stderr.flush()

    return report


@contextlib.contextmanager
def quiet_libraries(level: int = logging.WARNING) -> Iterator[None]:
    """Hide log messages of OpenMMLab below `level`, and warnings, which would interrupt the output of a command."""
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
