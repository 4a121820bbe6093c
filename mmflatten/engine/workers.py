"""Number of loader processes for `num_workers='auto'`."""
import os
from collections.abc import Iterator
from pathlib import Path

from mmflatten.measure.speed.machine import available_cpus

MAX_WORKERS = 16  # enough for 3,000 images per second (docs/data_at_scale.md); each holds batches in memory
MEMBERSHIP, CGROUPS = Path('/proc/self/cgroup'), Path('/sys/fs/cgroup')  # missing on other systems than Linux


def loader_workers() -> int:
    """Return the CPUs of this training process minus one for the training itself, from 1 to `MAX_WORKERS`.

    The CPUs are the smallest of the process's affinity, the quotas of its control groups (`cpu.max` of version 2) and
    `SLURM_CPUS_PER_TASK`, divided by the processes that torchrun or Open MPI started on this machine.
    """
    slurm = os.environ.get('SLURM_CPUS_PER_TASK')
    cpus = min(available_cpus(), *_quotas(), float(slurm or 'inf'))
    processes = os.environ.get('LOCAL_WORLD_SIZE') or os.environ.get('OMPI_COMM_WORLD_LOCAL_SIZE') or 1
    return min(max(int(cpus) // int(processes) - 1, 1), MAX_WORKERS)


def _quotas() -> Iterator[float]:
    """Yield the CPU quotas of the control group of this process and of the groups above it."""
    lines = MEMBERSHIP.read_text().splitlines() if MEMBERSHIP.is_file() else []
    for group in (line.removeprefix('0::/') for line in lines if line.startswith('0::/')):
        for folder in (group, *Path(group).parents):
            if (file := CGROUPS / folder / 'cpu.max').is_file():
                quota, period = file.read_text().split()
                if quota != 'max':
                    yield int(quota) / int(period)
