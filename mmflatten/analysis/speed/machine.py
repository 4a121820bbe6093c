"""The machine under a measurement: what it is, and how busy others keep it."""
from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
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
    libraries = {'MKL': torch.backends.mkl, 'oneDNN': torch.backends.mkldnn}
    return {
        'processor': _processor_name(),
        'cpus': available_cpus(),
        'threads': torch.get_num_threads(),
        'gpu': torch.cuda.get_device_name(device) if torch.device(device).type == 'cuda' else 'not used',
        'system': f'{platform.system()} {platform.machine()}',
        'python': platform.python_version(),
        'torch': torch.__version__,
        'blas': ', '.join(name for name, library in libraries.items() if library.is_available()) or 'no MKL, no oneDNN',
        'mmflatten': __version__,
        'allocator': ' '.join(f'{name}={os.environ[name]}' for name in ALLOCATOR if name in os.environ) or 'default',
    }


def _processor_name() -> str:
    cpuinfo = Path('/proc/cpuinfo')
    lines = cpuinfo.read_text(encoding='utf-8').splitlines() if cpuinfo.is_file() else []
    names = (line.partition(':')[2].strip() for line in lines if line.startswith('model name'))
    return next(names, platform.processor() or platform.machine())


def available_cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1


def watch_load() -> Callable[[], float | None]:
    """Start to watch how busy others keep the machine.

    Returns:
        A function that gives the CPUs that other processes have used on average since then, or None where the system
        does not tell.
    """
    start, before = time.monotonic(), _seconds_of_others()

    def others() -> float | None:
        if before is None:
            return None
        used = _seconds_of_others() - before - _TICKS_OFF / os.sysconf('SC_CLK_TCK')
        return max(0., used) / (time.monotonic() - start)

    return others


def _seconds_of_others() -> float | None:
    """CPU seconds that other processes have used since the system started."""
    stat = Path('/proc/stat')
    if not stat.is_file():
        return None
    user, nice, system, _, _, irq, softirq, steal = map(int, stat.read_text().split(maxsplit=9)[1:9])
    everyone = (user + nice + system + irq + softirq + steal) / os.sysconf('SC_CLK_TCK')
    return everyone - sum(os.times()[:4])
