"""Runs as Slurm jobs, through submitit; a job that is preempted or out of time is queued again and goes on."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import submitit
from submitit.core.utils import UncompletedJobError
from submitit.helpers import DelayedSubmission

from mmflatten.studies.executors import KILLED, Executor, execute
from mmflatten.studies.study import StudyError

CLUSTER, SLURM = 'cluster', 'slurm'
_NAMES = dict(time='timeout_min', gpus='gpus_per_node', mem='mem_gb')  # submitit's; it knows the others as slurm_NAME
MOST_JOBS = 200


class Job:
    """What a job runs, as submitit pickles it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.place = str(folder.absolute()), os.getcwd()

    def __call__(self) -> int:
        return execute(self.folder, self.place)

    def checkpoint(self) -> DelayedSubmission:
        """Called before a job is taken away: the next one goes on from the last checkpoint of the run."""
        return DelayedSubmission(self)


class SlurmExecutor(Executor):
    """Every node must see the study folder and the data under the same path as this machine.

    Args:
        folder: for the scripts, logs and ids of the jobs.
        options: as `read_options` has them; `cluster` may be local or debug, for trying without Slurm.
    """

    slots = MOST_JOBS

    def __init__(self, folder: Path, options: dict[str, Any], cores: int = 1) -> None:
        options, self.folder = dict(options), folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.executor = submitit.AutoExecutor(folder, cluster=options.pop(CLUSTER, SLURM))
        self.executor.update_parameters(name='mmflatten-study', cpus_per_task=cores, **options)
        self.running: dict[str, submitit.Job] = {}

    def submit(self, folder: Path) -> submitit.Job:
        self.withdraw(folder.name)
        job = self.executor.submit(Job(folder))
        self._note(folder.name).write_text(job.job_id, encoding='utf-8')
        self.running[job.job_id] = job
        return job

    def _note(self, run: str) -> Path:
        """Holds the id of the run's last job."""
        return self.folder / f'{run}.job'

    def withdraw(self, run: str) -> None:
        note = self._note(run)
        if note.exists() and self.executor.cluster == SLURM:  # jobs outlive a driver that is killed
            submitit.SlurmJob(self.executor.folder, note.read_text(encoding='utf-8')).cancel(check=False)

    def poll(self, handle: submitit.Job) -> int | None:
        if not handle.done():
            return None
        self.running.pop(handle.job_id, None)
        try:
            return handle.result()
        except UncompletedJobError:  # it is gone without a result
            return KILLED

    def close(self) -> None:
        for job in self.running.values():
            job.cancel()
        self.running.clear()


def read_options(text: str) -> dict[str, Any]:
    """`partition=gpu,time=60,gpus=1` as submitit wants it; the time is in minutes, `mem` in GB.

    Raises:
        StudyError: a part is not KEY=VALUE.
    """
    options: dict[str, Any] = {}
    for part in text.split(','):
        key, equals, value = part.strip().partition('=')
        if not (key and equals and value):
            raise StudyError(f'--slurm {text}: {part!r} must be KEY=VALUE, as in partition=gpu,time=60')
        name = _NAMES.get(key, key if key == CLUSTER else f'slurm_{key}')
        options[name] = int(value) if value.isdecimal() else value
    return options
