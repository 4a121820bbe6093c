"""Runs as Slurm jobs, through submitit. A job that is preempted or out of time is queued again and resumes."""
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
NAMES = dict(time='timeout_min', gpus='gpus_per_node', mem='mem_gb')  # submitit's names; others become slurm_NAME
MAX_JOBS = 200


class Job:
    """Function of a job, which submitit pickles."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cwd = str(folder.absolute()), os.getcwd()

    def __call__(self) -> int:
        return execute(self.folder, self.cwd)

    def checkpoint(self) -> DelayedSubmission:
        """Queue the job again before Slurm ends it; the run resumes from its last checkpoint."""
        return DelayedSubmission(self)


class SlurmExecutor(Executor):
    """Executor for Slurm. Every node must see the study folder and the data under the same paths.

    Args:
        folder: for scripts, logs and ids of the jobs.
        options: from `read_options`; `cluster` may be local or debug, to try it without Slurm.
    """

    slots = MAX_JOBS

    def __init__(self, folder: Path, options: dict[str, Any], cores: int = 1) -> None:
        options, self.folder = dict(options), folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.executor = submitit.AutoExecutor(folder, cluster=options.pop(CLUSTER, SLURM))
        self.executor.update_parameters(name='mmflatten-study', cpus_per_task=cores, **options)

    def submit(self, folder: Path) -> submitit.Job:
        self.withdraw(folder.name)
        job = self.executor.submit(Job(folder))
        self._id_file(folder.name).write_text(job.job_id, encoding='utf-8')
        return job

    def _id_file(self, run: str) -> Path:
        return self.folder / f'{run}.job'

    def withdraw(self, run: str) -> None:
        file = self._id_file(run)
        if file.exists() and self.executor.cluster == SLURM:  # jobs outlive a driver that is killed
            submitit.SlurmJob(self.executor.folder, file.read_text(encoding='utf-8')).cancel(check=False)

    def poll(self, handle: submitit.Job) -> int | None:
        if not handle.done():
            return None
        try:
            return handle.result()
        except UncompletedJobError:
            return KILLED

    def cancel(self, handle: submitit.Job) -> None:
        handle.cancel()


def read_options(text: str) -> dict[str, Any]:
    """Read `partition=gpu,time=60,gpus=1` for submitit. Times are in minutes, `mem` in GB."""
    options: dict[str, Any] = {}
    for part in text.split(','):
        key, _, value = part.strip().partition('=')
        if not (key and value):
            raise StudyError(f'--slurm: expected KEY=VALUE, got {part!r}. Write options as in partition=gpu,time=60.')
        name = NAMES.get(key, key if key == CLUSTER else f'slurm_{key}')
        options[name] = int(value) if value.isdecimal() else value
    return options
