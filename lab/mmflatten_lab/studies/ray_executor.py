"""Runs on a Ray cluster. The runs of a lost node start again on another node and resume."""
import os
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

import mmflatten
from mmflatten_lab.studies.executors import KILLED, Executor, execute

RETRIES = 10  # after the loss of a node or of Ray's process on it


class RayExecutor(Executor):
    """Executor for a Ray cluster. Every machine must see the study folder and the data under the same paths.

    Args:
        address: of the cluster; `auto` finds the one of this machine, `local` starts one here.
        cores: for each run.
        gpus: for each run; a fraction lets runs share one.
    """

    def __init__(self, address: str, cores: int = 1, gpus: float = 0.) -> None:
        package = str(Path(mmflatten.__file__).parents[1])
        path = os.pathsep.join([package, *filter(None, [os.environ.get('PYTHONPATH')])])
        variables = {'PYTHONPATH': path, 'OMP_NUM_THREADS': str(cores)}
        ray.init(None if address == 'local' else address, log_to_driver=False, include_dashboard=False,
                 ignore_reinit_error=True, runtime_env={'env_vars': variables})
        self.task = ray.remote(num_cpus=cores, num_gpus=gpus, max_retries=RETRIES)(execute)
        self.needs = {'CPU': cores, 'GPU': gpus}

    @property
    def slots(self) -> int:
        """Number of runs that fit on the cluster as it is now."""
        resources = ray.cluster_resources()
        return max(1, int(min(resources.get(kind, 0) / number for kind, number in self.needs.items() if number)))

    def submit(self, folder: Path) -> Any:
        return self.task.remote(str(folder.absolute()), os.getcwd())

    def poll(self, handle: Any) -> int | None:
        try:
            return ray.get(handle) if ray.wait([handle], timeout=0)[0] else None
        except RayError:  # lost more often than Ray retries
            return KILLED

    def cancel(self, handle: Any) -> None:
        ray.cancel(handle, force=True)
