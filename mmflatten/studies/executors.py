"""Executors start the processes of runs and report how they end. The one here runs them on this machine."""
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

VISIBLE = 'CUDA_VISIBLE_DEVICES'
LOG = 'log.txt'  # output of a run
KILLED = -9  # status of a run whose process, machine or job was lost
NO_SPACE = 75  # exit status of a run that needs more disk space (EX_TEMPFAIL of BSD)


class Executor(Protocol):
    """Interface between the driver and a machine or a cluster. A handle is whatever `submit` returns."""

    slots: int  # runs that may be submitted at the same time

    def submit(self, folder: Path) -> Any:
        """Start the run of a folder."""

    def poll(self, handle: Any) -> int | None:
        """Exit status of a run, negative if it was killed; None while it is running."""

    def withdraw(self, run: str) -> None:
        """Cancel a run that was left by an earlier driver. Processes of this machine end with their driver."""

    def cancel(self, handle: Any) -> None:
        """Stop a run."""


def start(folder: Path, cores: Sequence[int] = (), gpu: str | None = None, cwd: str | None = None) -> subprocess.Popen:
    """Start the process of a run, which ends with this process and writes its log into the folder.

    Args:
        cores: to run on; () leaves the choice to the system.
        gpu: value of `CUDA_VISIBLE_DEVICES`; None leaves it unchanged.
        cwd: directory that relative data paths refer to, by default the current one.
    """
    command = [sys.executable, '-m', 'mmflatten.studies.worker', str(folder), '--with-parent']
    environment = dict(os.environ)
    if cores:
        command += ['--cores', *map(str, cores)]
        environment['OMP_NUM_THREADS'] = str(len(cores))
    if gpu is not None:
        environment[VISIBLE] = gpu
    with open(folder / LOG, 'a', encoding='utf-8') as log:  # in a new session, so that Ctrl-C reaches the driver only
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, env=environment,
                                cwd=cwd, start_new_session=True)


def execute(folder: str, cwd: str) -> int:
    """Run the process of a run to its end. Clusters call this on the machine that they choose."""
    with start(Path(folder), cwd=cwd) as process:
        return process.wait()


class LocalExecutor(Executor):
    """Processes on this machine, each with its share of the cores, and with a GPU if there is one.

    Args:
        workers: processes at the same time; cores and GPUs are distributed among them.
        gpus: number of GPUs to use, the first of those in `CUDA_VISIBLE_DEVICES`.
    """

    def __init__(self, workers: int, gpus: int = 0) -> None:
        cores = sorted(os.sched_getaffinity(0))
        visible = os.environ[VISIBLE].split(',') if VISIBLE in os.environ else list(map(str, range(gpus)))
        names = visible[:gpus] or [None]
        self.slots = workers
        self.free = [(tuple(cores[worker::workers]) or (cores[worker % len(cores)],), names[worker % len(names)])
                     for worker in range(workers)]

    def submit(self, folder: Path) -> tuple[subprocess.Popen, tuple]:
        place = self.free.pop(0)
        return start(folder, *place), place

    def poll(self, handle: tuple[subprocess.Popen, tuple]) -> int | None:
        process, place = handle
        status = process.poll()
        if status is not None:
            process.stdin.close()
            self.free.append(place)
        return status

    def cancel(self, handle: tuple[subprocess.Popen, tuple]) -> None:
        process, _ = handle
        process.kill()
        process.wait()
