"""Where runs take place. An executor starts the process of a run and tells when it has ended; this one does so here."""
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from mmflatten.studies.folder import LOG

VISIBLE = 'CUDA_VISIBLE_DEVICES'
KILLED = -9  # status of a run whose process, machine or job is gone without a word


class Executor(Protocol):
    """What a driver knows of a cluster. A handle is whatever `submit` returns."""

    slots: int  # runs that may be submitted at once

    def submit(self, folder: Path) -> Any:
        """Begin the run of a folder."""

    def poll(self, handle: Any) -> int | None:
        """The exit status of a run, below zero where it was killed; None while it goes on."""

    def withdraw(self, run: str) -> None:
        """End what an earlier driver has left of a run, where that does not end with its driver."""

    def close(self) -> None:
        """End what still runs."""


def start(folder: Path, cores: Sequence[int] = (), gpu: str | None = None,
          place: str | None = None) -> subprocess.Popen:
    """Start the process of a run. It ends with the one that started it, and its log is in the folder.

    Args:
        cores: to run on; () leaves that to the system.
        gpu: as in `CUDA_VISIBLE_DEVICES`; None leaves all visible.
        place: directory to run in, which paths of data are relative to; None is this one.
    """
    command = [sys.executable, '-m', 'mmflatten.studies.worker', str(folder), '--with-parent']
    environment = dict(os.environ)
    if cores:
        command += ['--cores', *map(str, cores)]
        environment['OMP_NUM_THREADS'] = str(len(cores))
    if gpu is not None:
        environment[VISIBLE] = gpu
    with open(folder / LOG, 'a', encoding='utf-8') as log:  # a session of its own: Ctrl-C is the driver's
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, env=environment,
                                cwd=place, start_new_session=True)


def execute(folder: str, place: str) -> int:
    """Start the process of a run and wait for it: what a cluster calls on the machine it has chosen."""
    with start(Path(folder), place=place) as process:
        return process.wait()


class LocalExecutor(Executor):
    """Processes on this machine, each on cores of its own, and on a GPU where there are any.

    Args:
        workers: processes at once; the cores are shared out among them, and GPUs in turn.
        gpus: number of GPUs of this machine to use, the first of those that `CUDA_VISIBLE_DEVICES` leaves.
    """

    def __init__(self, workers: int, gpus: int = 0) -> None:
        cores = sorted(os.sched_getaffinity(0))
        visible = os.environ[VISIBLE].split(',') if VISIBLE in os.environ else map(str, range(gpus))
        names = list(visible)[:gpus] or [None]
        self.slots = workers
        self.free = [(tuple(cores[place::workers]) or (cores[place % len(cores)],), names[place % len(names)])
                     for place in range(workers)]
        self.held: dict[subprocess.Popen, tuple] = {}

    def submit(self, folder: Path) -> subprocess.Popen:
        place = self.free.pop(0)
        process = start(folder, *place)
        self.held[process] = place
        return process

    def poll(self, handle: subprocess.Popen) -> int | None:
        status = handle.poll()
        if status is not None and handle in self.held:
            handle.stdin.close()
            self.free.append(self.held.pop(handle))
        return status

    def close(self) -> None:
        for process in self.held:
            process.kill()
            process.wait()
        self.held.clear()
