"""Process of one run of a study, which trains or resumes, and tests.

    python -m mmflatten_lab.studies.worker work_dirs/studies/STUDY/runs/RUN

The folder holds `config.py` and `run.json`. `result.json` is written last.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from mmflatten.console import OUT_OF_SPACE, command_line, explain
from mmflatten.locks import lock_file

VISIBLE_GPUS = 'CUDA_VISIBLE_DEVICES'
THREADS = 'OMP_NUM_THREADS'
LOG = 'log.txt'  # output of a run
NO_SPACE = 75  # exit status of a run that needs more disk space (EX_TEMPFAIL of BSD)


def start_process(
    folder: Path, cores: Sequence[int] = (), gpu: str | None = None, cwd: str | None = None
) -> subprocess.Popen:
    """Start the process of a run, which ends with this process and writes its log into the folder.

    Args:
        cores: cores to run on, with as many threads unless `OMP_NUM_THREADS` is set; () leaves the
            choice to the system.
        gpu: value of `CUDA_VISIBLE_DEVICES`; None leaves it unchanged.
        cwd: directory that relative data paths refer to, by default the current one.
    """
    command = [sys.executable, '-m', 'mmflatten_lab.studies.worker', str(folder), '--with-parent']
    env = dict(os.environ)
    if cores:
        env.setdefault(THREADS, str(len(cores)))
    if gpu is not None:
        env[VISIBLE_GPUS] = gpu
    # in a new session, so that Ctrl-C reaches the driver only
    with open(folder / LOG, 'a', encoding='utf-8') as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
    if cores and hasattr(os, 'sched_setaffinity'):  # Linux
        os.sched_setaffinity(process.pid, cores)  # before it starts its threads
    return process


def execute(folder: str, cwd: str) -> int:
    """Run the process of a run to its end. Clusters call this on the machine that they choose."""
    with start_process(Path(folder), cwd=cwd) as process:
        return process.wait()


@command_line
def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        prog='python -m mmflatten_lab.studies.worker',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('folder', type=Path, help='folder of the run')
    parser.add_argument(
        '--with-parent', action='store_true', help='end when the standard input is closed'
    )
    args = parser.parse_args(argv)
    if args.with_parent:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    from mmflatten_lab.studies.folder import LOCK, RESULT, RUN

    if not (args.folder / RUN).exists():
        raise ValueError(
            f'folder: expected the folder of a run, got {args.folder} without {RUN}. Name another.'
        )
    with open(args.folder / LOCK, 'w', encoding='utf-8') as lock:
        lock_file(lock, wait=True)  # a process of a killed driver ends in a moment
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
    """Return True if an error, or one that caused it, is a full disk: a print into the log may fail
    anywhere.
    """
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
