"""Process of one run of a study: trains or resumes, and tests.

    python -m mmflatten_lab.studies.worker work_dirs/studies/STUDY/runs/RUN

The folder holds `config.py` and `run.json`. `result.json` is written last.
"""
import argparse
import contextlib
import fcntl
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from mmflatten.console import OUT_OF_SPACE, command_line, explain
from mmflatten_lab.studies.executors import NO_SPACE


@command_line
def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog='python -m mmflatten_lab.studies.worker',
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', type=Path, help='folder of the run')
    parser.add_argument('--with-parent', action='store_true', help='end when the standard input is closed')
    args = parser.parse_args(argv)
    if args.with_parent:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    from mmflatten_lab.studies.folder import LOCK, RESULT, RUN
    if not (args.folder / RUN).exists():
        raise ValueError(f'folder: expected the folder of a run, got {args.folder} without {RUN}. Name another.')
    with open(args.folder / LOCK, 'w', encoding='utf-8') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a process of a killed driver ends in a moment
        if (args.folder / RESULT).exists():
            return 0
        from mmflatten_lab.studies import execution  # slow, because it imports what trains
        try:
            execution.execute_run(args.folder)
        except Exception as error:
            if not _is_out_of_space(error):
                raise
            with contextlib.suppress(OSError):  # the log is on the same disk
                sys.stderr.write(explain(error) + '\n')
            return NO_SPACE
    return 0


def _is_out_of_space(error: BaseException | None) -> bool:
    """Return True if an error, or one that caused it, is a full disk: a print into the log may fail anywhere."""
    while error is not None and getattr(error, 'errno', None) not in OUT_OF_SPACE:
        error = error.__cause__ or error.__context__
    return error is not None


def _end_with_parent() -> None:
    while os.read(0, 1):  # sys.stdin would be locked by this thread when the process exits
        pass
    os._exit(1)


if __name__ == '__main__':
    status = main()
    if status == NO_SPACE:
        os._exit(status)  # the interpreter would fail to flush the log, and end with another status
    sys.exit(status)
