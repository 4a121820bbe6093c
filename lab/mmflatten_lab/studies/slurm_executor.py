"""Runs as Slurm jobs, through submitit. A job that is preempted or out of time is queued again and resumes."""
import os
from pathlib import Path
from typing import Any

import submitit
from submitit.core.utils import UncompletedJobError

from mmflatten_lab.studies.executors import KILLED, Executor, execute
from mmflatten_lab.studies.study import StudyError

CLUSTER, SLURM = 'cluster', 'slurm'
NAMES = dict(time='timeout_min', gpus='gpus_per_node', mem='mem_gb')  # submitit's names; others become slurm_NAME
MAX_JOBS = 200


class Job(submitit.helpers.Checkpointable):
    """Function of a job, which submitit pickles and queues again before Slurm ends it."""

    def __call__(self, folder: str, cwd: str) -> int:
        return execute(folder, cwd)


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
        job = self.executor.submit(Job(), str(folder.absolute()), os.getcwd())
        (self.folder / f'{folder.name}.job').write_text(job.job_id, encoding='utf-8')
        return job

    def withdraw(self, run: str) -> None:
        file = self.folder / f'{run}.job'
        if file.exists() and self.executor.cluster == SLURM:  # jobs outlive a driver that is killed
            submitit.SlurmJob(self.executor.folder, file.read_text(encoding='utf-8')).cancel(check=False)

    def poll(self, handle: submitit.Job) -> int | None:
        try:
            return handle.result() if handle.done() else None
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
