"""One wrapper around every tool: a failure ends with one readable line and a non-zero exit status."""
import argparse
import contextlib
import functools
import logging
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from mmflatten.engine.errors import explain

TRACEBACK_VARIABLE = 'MMFLATTEN_TRACEBACK'
# `dist_train.sh` and `dist_test.sh` name a file here: torchrun prints its own report after a worker's last line, so
# the script repeats the message from this file at the very end.
ERROR_FILE_VARIABLE = 'MMFLATTEN_ERROR_FILE'
INTERRUPTED = 130  # 128 + SIGINT, as shells report it


def tool_parser(description: str, **kwargs: object) -> argparse.ArgumentParser:
    """Make a parser that knows the options every tool shares (`--traceback`)."""
    parser = argparse.ArgumentParser(description=description, **kwargs)
    parser.add_argument(
        '--traceback', action='store_true',
        help=f'print the full traceback when something fails (so does {TRACEBACK_VARIABLE}=1)')
    return parser


def command_line(main: Callable[[Sequence[str]], int | None]) -> Callable[[Sequence[str] | None], int]:
    """Decorate `main(argv)` of a tool; the result takes `argv=None` for `sys.argv[1:]` and returns the exit status.

    An exception becomes one last line on the standard error: the root cause in words (see `failures.explain`). The
    full traceback goes to the run's log file, and to the screen with `--traceback` or `MMFLATTEN_TRACEBACK=1`.
    Ctrl-C ends with status 130, any other failure with 1.

        @command_line
        def main(argv):
            arguments = tool_parser(__doc__).parse_args(argv)

        if __name__ == '__main__':
            sys.exit(main())
    """

    @functools.wraps(main)
    def run(argv: Sequence[str] | None = None) -> int:
        arguments = list(sys.argv[1:] if argv is None else argv)
        show_traceback = '--traceback' in arguments or os.environ.get(TRACEBACK_VARIABLE, '0') not in ('', '0')
        old_logs = _log_files()
        try:
            return main(arguments) or 0
        except KeyboardInterrupt as interrupt:
            _report(interrupt, show_traceback, old_logs)
            return INTERRUPTED
        except Exception as error:
            _report(error, show_traceback, old_logs)
            return 1

    return run


def _report(error: BaseException, show_traceback: bool, old_logs: set[str]) -> None:
    message = _one_line(explain(error))
    text = ''.join(traceback.format_exception(error))
    kept_in = [log for log in sorted(_log_files() - old_logs) if _append(log, text)]
    sys.stdout.flush()
    if show_traceback:
        sys.stderr.write(text)
    elif isinstance(error, KeyboardInterrupt):
        pass  # the user knows why
    elif kept_in:
        sys.stderr.write(f'The full traceback is in {kept_in[-1]}\n')
    else:
        sys.stderr.write(f'{TRACEBACK_VARIABLE}=1 shows the full traceback\n')
    line = f'{_rank_label()}{message}'
    sys.stderr.write(line + '\n')
    sys.stderr.flush()
    _leave_for_launcher(line)


def _one_line(message: str) -> str:
    return ' '.join(line.strip() for line in message.splitlines() if line.strip())


def _rank_label() -> str:
    several = int(os.environ.get('WORLD_SIZE', '1') or 1) > 1
    return f'rank {os.environ.get("RANK", "?")}: ' if several else ''


def _append(log_file: str, text: str) -> bool:
    """Append to a log; a full or read-only disk must not hide the failure that is being reported."""
    with contextlib.suppress(OSError):
        with open(log_file, 'a', encoding='utf-8') as log:
            log.write(text)
        return True
    return False


def _leave_for_launcher(line: str) -> None:
    path = os.environ.get(ERROR_FILE_VARIABLE)
    if not path:
        return
    with contextlib.suppress(OSError):
        # The first worker to fail is the cause; the others are then ended by the launcher.
        if Path(path).stat().st_size == 0:
            Path(path).write_text(line + '\n', encoding='utf-8')


def _log_files() -> set[str]:
    """Files that the run's MMEngine loggers write to; empty when MMEngine was never imported."""
    logging = sys.modules.get('mmengine.logging')
    if logging is None:
        return set()
    loggers = logging.MMLogger._instance_dict.values()
    return {handler.baseFilename for logger in loggers for handler in logger.handlers
            if hasattr(handler, 'baseFilename')}


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
def quiet_libraries() -> Iterator[None]:
    """Hold back what OpenMMLab's constructors say of themselves; it would stand in the middle of a tool's table."""
    logging.disable(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            yield
    finally:
        logging.disable(logging.NOTSET)
