"""The machine under a measurement: what it is, and how busy others keep it."""
from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
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


@dataclass(frozen=True)
class Machine:
    """Where a measurement was made."""

    processor: str
    cpus: int
    threads: int
    gpu: str
    system: str
    python: str
    torch: str
    blas: str
    mmflatten: str
    allocator: str

    def lines(self) -> list[str]:
        """Two lines for people."""
        place = self.gpu or f'{self.processor}, {self.threads} of {self.cpus} CPUs'
        return [f'machine: {place}; {self.system}',
                f'software: torch {self.torch} ({self.blas}), Python {self.python}, mmflatten {self.mmflatten}; '
                f'allocator: {self.allocator}']


def describe_machine(device: str) -> Machine:
    """The machine, as this process uses it."""
    on_gpu = torch.device(device).type == 'cuda'
    settings = ' '.join(f'{name}={os.environ[name]}' for name in ALLOCATOR if name in os.environ)
    libraries = [name for name, there in (('MKL', torch.backends.mkl.is_available()),
                                          ('oneDNN', torch.backends.mkldnn.is_available())) if there]
    return Machine(processor_name(), available_cpus(), torch.get_num_threads(),
                   torch.cuda.get_device_name(device) if on_gpu else '', f'{platform.system()} {platform.machine()}',
                   platform.python_version(), torch.__version__, ', '.join(libraries) or 'neither MKL nor oneDNN',
                   __version__, settings or 'as it comes')


def processor_name() -> str:
    """What the processor calls itself."""
    cpuinfo = Path('/proc/cpuinfo')
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding='utf-8').splitlines():
            if line.startswith('model name'):
                return line.partition(':')[2].strip()
    return platform.processor() or platform.machine()


def available_cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1


@dataclass(frozen=True)
class Load:
    """How busy the machine was.

    Attributes:
        before: load average over a minute when the measurement began, None where the system does not tell.
        after: the same at its end; the measurement itself is in it.
        others: CPUs that other processes used on average while it ran, None where the system does not tell.
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
        self._start = time.monotonic(), _busy_seconds(), _own_seconds()

    def stop(self) -> Load:
        wall, busy, own = self._start
        busy_now, elapsed = _busy_seconds(), time.monotonic() - wall
        others = None
        if busy is not None and busy_now is not None and elapsed > 0:
            uncertain = _TICKS_OFF / os.sysconf('SC_CLK_TCK')
            others = max(0., busy_now - busy - (_own_seconds() - own) - uncertain) / elapsed
        return Load(self._before, _load_average(), others)


def as_dict(machine: Machine, load: Load) -> dict:
    """For JSON."""
    return {**asdict(machine), 'load': asdict(load)}


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


def _own_seconds() -> float:
    return sum(os.times()[:4])
