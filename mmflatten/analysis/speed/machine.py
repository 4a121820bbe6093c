"""The machine under a measurement: what it is, and how busy others keep it."""
from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from mmflatten.version import __version__

# glibc gives large blocks back to the system on every free; fetching them again, page by page, then takes longer than
# the arithmetic. It reads these variables when a process starts, so they cannot be set from inside.
ALLOCATOR = {'MALLOC_MMAP_MAX_': '0', 'MALLOC_TRIM_THRESHOLD_': '100000000000'}
QUIET_PROFILER = {'KINETO_LOG_LEVEL': '99'}  # else it writes to the standard error at every start and stop

BUSY_CPUS = 0.1  # used by others, above which a measurement is called disturbed
BUSY_LOAD = 0.5  # load average above which a machine is not called idle
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
                allocator=settings or 'as it comes')


def machine_lines(machine: Mapping[str, str | int]) -> list[str]:
    """The machine in two lines for people."""
    place = machine['gpu'] or '{processor}, {threads} of {cpus} CPUs'.format(**machine)
    return [f'machine: {place}; {machine["system"]}',
            'software: torch {torch} ({blas}), Python {python}, mmflatten {mmflatten}; allocator: {allocator}'.format(
                **machine)]


def processor_name() -> str:
    """What the processor calls itself."""
    cpuinfo = Path('/proc/cpuinfo')
    lines = cpuinfo.read_text(encoding='utf-8').splitlines() if cpuinfo.is_file() else []
    names = (line.partition(':')[2].strip() for line in lines if line.startswith('model name'))
    return next(names, platform.processor() or platform.machine())


def available_cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1


@dataclass(frozen=True)
class Load:
    """How busy the machine was; None where the system does not tell.

    Attributes:
        before: load average over a minute when the measurement began.
        after: the same at its end; the measurement itself is in it.
        others: CPUs that other processes used on average while it ran.
    """

    before: float | None
    after: float | None
    others: float | None

    def line(self) -> str:
        """One line for people."""
        parts = [f'load average {name} {value:.2f}' for name, value in (('before', self.before), ('after', self.after))
                 if value is not None]
        if self.others is not None:
            parts.append(f'other processes used {self.others:.2f} CPUs on average')
        return '; '.join(parts) or 'load: unknown on this system'

    def warnings(self) -> list[str]:
        """What a reader of the figures must know."""
        if self.others is not None:  # says more than the load average, which lags behind by a minute
            found = f'other processes used {self.others:.2f} CPUs' if self.others > BUSY_CPUS else ''
        else:
            busy = self.before is not None and self.before > BUSY_LOAD
            found = f'the machine was not idle at the start (load average {self.before:.2f})' if busy else ''
        return [f'{found}; rounds that this disturbed were left out if enough others remained. Trust the ratios before '
                'the times, or repeat on an idle machine'] if found else []


class LoadWatch:
    """Watches the load from `LoadWatch()` to `stop()`."""

    def __init__(self) -> None:
        self._before = _load_average()
        self._start = time.monotonic(), _busy_seconds(), sum(os.times()[:4])

    def stop(self) -> Load:
        """How busy the machine was since the beginning."""
        wall, busy, own = self._start
        busy_now, elapsed = _busy_seconds(), time.monotonic() - wall
        others = None
        if busy is not None and busy_now is not None and elapsed > 0:
            uncertain = _TICKS_OFF / os.sysconf('SC_CLK_TCK')
            others = max(0., busy_now - busy - (sum(os.times()[:4]) - own) - uncertain) / elapsed
        return Load(self._before, _load_average(), others)


def _load_average() -> float | None:
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows has none
        return None


def _busy_seconds() -> float | None:
    """CPU seconds that all processes have used since the system started."""
    stat = Path('/proc/stat')
    if not stat.is_file():
        return None
    user, nice, system, _, _, irq, softirq, steal = map(int, stat.read_text().split('\n', 1)[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf('SC_CLK_TCK')
