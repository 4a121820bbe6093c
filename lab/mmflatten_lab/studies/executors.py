"""Executors start the processes of runs, on this machine or in Slurm jobs, and report how they
end.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

from mmflatten.untrusted.files import read_text
from mmflatten_lab.studies.study_fields import StudyError
from mmflatten_lab.studies.worker import THREADS, VISIBLE_GPUS, execute, start_process

KILLED = -9  # status of a run whose process, machine or job was lost
SLURM_JOBS = 200  # submitted at the same time
# submitit's names; other options are slurm_NAME
SLURM_NAMES = dict(time='timeout_min', gpus='gpus_per_node', mem='mem_gb', cpus='cpus_per_task')


class Executor:
    """Interface between the driver and a machine or a cluster. `slots` runs may be submitted at the
    same time.
    """

    slots: int

    def submit(self, folder: Path) -> Any:
        """Start the run of a folder. Returns a handle for `poll` and `cancel`."""

    def poll(self, handle: Any) -> int | None:
        """Exit status of a run, negative if it was killed; None while it is running."""

    def cancel(self, handle: Any) -> None:
        """Stop a run."""

    def withdraw(self, run: str) -> None:
        """Cancel a run that was left by an earlier driver. Processes of this machine end with their
        driver.
        """


class LocalExecutor(Executor):
    """Processes on this machine, among which cores and GPUs are distributed.

    Args:
        workers: processes at the same time; None for one on each GPU, or one on each core if there
            are none. With `OMP_NUM_THREADS`, one for as many cores.

    Raises:
        StudyError: `OMP_NUM_THREADS` is no positive number.
    """

    def __init__(self, workers: int | None = None) -> None:
        # slow, and a job of a cluster needs only `execute`
        import torch

        from mmflatten.measure.speed.machine import allowed_cpus

        cores = allowed_cpus()
        gpus = torch.cuda.device_count()
        all_gpus = ','.join(map(str, range(gpus)))
        names: list[str | None] = os.environ.get(VISIBLE_GPUS, all_gpus).split(',')[:gpus]
        if not names:
            names = [None]
        self.slots = workers or gpus or max(1, len(cores) // threads_of_a_run())
        self.free = []
        for worker in range(self.slots):
            # With more workers than cores, several share a core.
            own_cores = tuple(cores[worker :: self.slots]) or (cores[worker % len(cores)],)
            self.free.append((own_cores, names[worker % len(names)]))

    def submit(self, folder: Path) -> tuple[subprocess.Popen, tuple]:
        place = self.free.pop(0)
        return start_process(folder, *place), place

    def poll(self, handle: tuple[subprocess.Popen, tuple]) -> int | None:
        process, place = handle
        if (status := process.poll()) is not None:
            process.stdin.close()
            self.free.append(place)
        return status

    def cancel(self, handle: tuple[subprocess.Popen, tuple]) -> None:
        handle[0].kill()
        handle[0].wait()


def threads_of_a_run() -> int:
    """`OMP_NUM_THREADS`, the threads that each run gets; 1 without.

    Raises:
        StudyError: it is no positive number.
    """
    text = os.environ.get(THREADS) or '1'
    if not text.isdecimal() or int(text) < 1:
        raise StudyError(f'{THREADS}: expected a positive number, got {text!r}. Set it to 1.')
    return int(text)


class SlurmExecutor(Executor):
    """Slurm jobs through submitit. Every node must see the study folder and the data under the same
    paths.

    Args:
        folder: folder for scripts, logs and ids of the jobs.
        options: `partition=gpu,time=60,gpus=1,cpus=2`; times in minutes, `mem` in GB.
            `cluster=local` needs no Slurm.
    """

    slots = SLURM_JOBS

    def __init__(self, folder: Path, options: str) -> None:
        import submitit

        self.folder = folder
        named = dict(part.strip().partition('=')[::2] for part in options.split(','))
        if not all(named) or not all(named.values()):
            raise StudyError(
                f'--slurm: expected KEY=VALUE, got {options!r}. Write partition=gpu,time=60.'
            )
        self.executor = submitit.AutoExecutor(folder, cluster=named.pop('cluster', 'slurm'))
        parameters: dict[str, Any] = {}
        for key, value in named.items():
            name = SLURM_NAMES.get(key, f'slurm_{key}')
            parameters[name] = int(value) if value.isdecimal() else value
        self.executor.update_parameters(name='mmflatten-study', **parameters)

    def submit(self, folder: Path) -> Any:
        self.withdraw(folder.name)
        job = self.executor.submit(SlurmJob(), str(folder.absolute()), os.getcwd())
        (self.folder / f'{folder.name}.job').write_text(job.job_id, encoding='utf-8')
        return job

    def withdraw(self, run: str) -> None:
        import submitit

        file = self.folder / f'{run}.job'
        # jobs outlive a driver that is killed
        if file.exists() and self.executor.cluster == 'slurm':
            submitit.SlurmJob(self.executor.folder, read_text(file)).cancel(check=False)

    def poll(self, handle: Any) -> int | None:
        from submitit.core.utils import UncompletedJobError

        try:
            return handle.result() if handle.done() else None
        except UncompletedJobError:
            return KILLED

    def cancel(self, handle: Any) -> None:
        handle.cancel()


class SlurmJob:
    """Function of a job, which submitit pickles. A job that is preempted or out of time is queued
    again and resumes.
    """

    def __call__(self, folder: str, cwd: str) -> int:
        return execute(folder, cwd)

    def checkpoint(self, folder: str, cwd: str) -> Any:
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, folder, cwd)
