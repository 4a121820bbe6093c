"""Executors start the processes of runs and report how they end. The one here runs them on this machine."""
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
    """Interface between the driver and a machine or a cluster."""

    slots: int  # runs that may be submitted at the same time

    def submit(self, folder: Path) -> Any:
        """Start the run of a folder. Returns a handle for `poll` and `cancel`."""

    def poll(self, handle: Any) -> int | None:
        """Exit status of a run, negative if it was killed; None while it is running."""

    def cancel(self, handle: Any) -> None:
        """Stop a run."""

    def withdraw(self, run: str) -> None:
        """Cancel a run that was left by an earlier driver. Processes of this machine end with their driver."""


def start(folder: Path, cores: Sequence[int] = (), gpu: str | None = None, cwd: str | None = None) -> subprocess.Popen:
    """Start the process of a run, which ends with this process and writes its log into the folder.

    Args:
        cores: to run on; () leaves the choice to the system.
        gpu: value of `CUDA_VISIBLE_DEVICES`; None leaves it unchanged.
        cwd: directory that relative data paths refer to, by default the current one.
    """
    command = [sys.executable, '-m', 'mmflatten_lab.studies.worker', str(folder), '--with-parent']
    env = dict(os.environ)
    if cores:
        env['OMP_NUM_THREADS'] = str(len(cores))
    if gpu is not None:
        env[VISIBLE] = gpu
    with open(folder / LOG, 'a', encoding='utf-8') as log:  # in a new session, so that Ctrl-C reaches the driver only
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, env=env,
                                   cwd=cwd, start_new_session=True)
    if cores:
        os.sched_setaffinity(process.pid, cores)  # before it starts its threads
    return process


def execute(folder: str, cwd: str) -> int:
    """Run the process of a run to its end. Clusters call this on the machine that they choose."""
    with start(Path(folder), cwd=cwd) as process:
        return process.wait()


class LocalExecutor(Executor):
    """Processes on this machine, each with its share of the cores, and with a GPU if there is one.

    Args:
        workers: processes at the same time, among which cores and GPUs are distributed; None for one on each GPU, or
            one on each core if there are none.
        gpus: number of GPUs to use, the first of those in `CUDA_VISIBLE_DEVICES`; None for all.
    """

    def __init__(self, workers: int | None = None, gpus: int | None = None) -> None:
        import torch  # slow, and a job of a cluster needs only `execute`
        cores = sorted(os.sched_getaffinity(0))
        gpus = torch.cuda.device_count() if gpus is None else gpus
        visible = os.environ[VISIBLE].split(',') if VISIBLE in os.environ else list(map(str, range(gpus)))
        names = visible[:gpus] or [None]
        self.slots = workers or gpus or len(cores)
        self.free = [(tuple(cores[worker::self.slots]) or (cores[worker % len(cores)],), names[worker % len(names)])
                     for worker in range(self.slots)]

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
