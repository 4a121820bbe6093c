"""The machine under a measurement: what it is, and how busy others keep it."""
from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path

import torch

from mmflatten.version import __version__

# glibc gives large blocks back to the system on every free; fetching them again, page by page, then takes longer than
# the arithmetic. It reads these variables when a process starts, so they cannot be set from inside.
ALLOCATOR = {'MALLOC_MMAP_MAX_': '0', 'MALLOC_TRIM_THRESHOLD_': '100000000000'}
QUIET_PROFILER = {'KINETO_LOG_LEVEL': '99'}  # else it writes to the standard error at every start and stop

BUSY_CPUS = 0.1  # used by others, above which a measurement is called disturbed
_TICKS_OFF = 3  # the system counts CPU time in ticks of some 10 ms; so many may be wrong in one interval


def restart_environment(environment: Mapping[str, str]) -> dict[str, str] | None:
    """The environment to start again with, or None where this process has it already or glibc is not used.

    Values that are set are left alone.
    """
    missing = {name: value for name, value in ALLOCATOR.items() if name not in environment}
    if not missing or platform.libc_ver()[0] != 'glibc':
        return None
    return {**QUIET_PROFILER, **environment, **missing}


def describe_machine(device: str) -> dict[str, str | int]:
    """The machine and the software, as this process uses them."""
    on_gpu = torch.device(device).type == 'cuda'
    settings = ' '.join(f'{name}={os.environ[name]}' for name in ALLOCATOR if name in os.environ)
    libraries = [name for name, there in (('MKL', torch.backends.mkl.is_available()),
                                          ('oneDNN', torch.backends.mkldnn.is_available())) if there]
    return dict(processor=processor_name(), cpus=available_cpus(), threads=torch.get_num_threads(),
                gpu=torch.cuda.get_device_name(device) if on_gpu else '',
                system=f'{platform.system()} {platform.machine()}', python=platform.python_version(),
                torch=torch.__version__, blas=', '.join(libraries) or 'neither MKL nor oneDNN', mmflatten=__version__,
                allocator=settings or 'default')


def machine_lines(machine: Mapping[str, str | int], others: float | None) -> list[str]:
    """The machine, and the CPUs that other processes used meanwhile, in three lines for people."""
    place = machine['gpu'] or '{processor}, {threads} of {cpus} CPUs'.format(**machine)
    load = 'unknown on this system' if others is None else f'other processes used {others:.2f} CPUs on average'
    return [f'machine: {place}; {machine["system"]}',
            'software: torch {torch} ({blas}), Python {python}, mmflatten {mmflatten}; allocator: {allocator}'.format(
                **machine),
            f'load: {load}']


def processor_name() -> str:
    """What the processor calls itself."""
    cpuinfo = Path('/proc/cpuinfo')
    lines = cpuinfo.read_text(encoding='utf-8').splitlines() if cpuinfo.is_file() else []
    names = (line.partition(':')[2].strip() for line in lines if line.startswith('model name'))
    return next(names, platform.processor() or platform.machine())


def available_cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1


class LoadWatch:
    """Watches how busy others keep the machine, from `LoadWatch()` on."""

    def __init__(self) -> None:
        self._wall, self._busy, self._own = time.monotonic(), _busy_seconds(), sum(os.times()[:4])

    def others(self) -> float | None:
        """CPUs that other processes used on average since the beginning, None where the system does not tell."""
        busy, elapsed = _busy_seconds(), time.monotonic() - self._wall
        if busy is None or self._busy is None or not elapsed:
            return None
        uncertain = _TICKS_OFF / os.sysconf('SC_CLK_TCK')
        return max(0., busy - self._busy - (sum(os.times()[:4]) - self._own) - uncertain) / elapsed


def _busy_seconds() -> float | None:
    """CPU seconds that all processes have used since the system started."""
    stat = Path('/proc/stat')
    if not stat.is_file():
        return None
    user, nice, system, _, _, irq, softirq, steal = map(int, stat.read_text().split('\n', 1)[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf('SC_CLK_TCK')
