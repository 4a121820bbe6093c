"""Machine of a measurement: its description, free memory, and load of other processes."""

from __future__ import annotations

import ctypes
import math
import os
import platform
from pathlib import Path

import torch

from mmflatten.models.layers.linear import uses_onednn
from mmflatten.version import __version__

BUSY_CPUS = 0.1  # used by other processes, above which a measurement is disturbed
# options of glibc's `mallopt`
M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4
PROC = Path('/proc')  # missing on other systems than Linux


def keep_freed_memory() -> str:
    """Make glibc keep freed memory, and return a description of the allocator.

    By default glibc returns large blocks to the system, and mapping them again takes longer than
    the arithmetic.
    """
    if platform.libc_ver()[0] != 'glibc':
        return 'default'
    libc = ctypes.CDLL(None)
    kept = libc.mallopt(M_MMAP_MAX, 0) and libc.mallopt(M_TRIM_THRESHOLD, -1)
    return 'glibc, keeps freed memory' if kept else 'default'


def describe_machine(device: str) -> dict[str, str | int]:
    """Describe the machine and the software as this process uses them."""
    kind = torch.device(device).type
    libraries = {'MKL': torch.backends.mkl, 'oneDNN': torch.backends.mkldnn}
    available = [name for name, library in libraries.items() if library.is_available()]
    with torch.no_grad():
        onednn = kind == 'cpu' and uses_onednn(torch.empty(1, 1, device='cpu'))
    return {
        'processor': cpuinfo().get('model name') or platform.processor() or platform.machine(),
        'cpus': available_cpus(),
        'threads': torch.get_num_threads(),
        'gpu': torch.cuda.get_device_name(device) if kind == 'cuda' else 'not used',
        'system': f'{platform.system()} {platform.machine()}',
        'python': platform.python_version(),
        'torch': torch.__version__,
        'blas': ', '.join(available) or 'no MKL, no oneDNN',
        # product that `Linear` uses in eager inference
        'projections': 'oneDNN' if onednn else 'F.linear',
        'mmflatten': __version__,
    }


def cpuinfo() -> dict[str, str]:
    """Fields of the first processor in `/proc/cpuinfo`; empty on other systems than Linux."""
    first, _, _ = _read(PROC / 'cpuinfo').partition('\n\n')
    fields = {}
    for line in first.splitlines():
        name, _, value = line.partition(':')
        fields[name.strip()] = value.strip()
    return fields


def available_cpus() -> int:
    """Number of CPUs that this process may use."""
    return len(allowed_cpus())


def allowed_cpus() -> list[int]:
    """Numbers of the CPUs that this process may use, in order."""
    if hasattr(os, 'sched_getaffinity'):  # not on macOS
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def seconds_of_others() -> float:
    """CPU seconds used by other processes since the system started, NaN without `/proc`."""
    fields = _read(PROC / 'stat').split(maxsplit=9)[1:9]
    if not fields:
        return math.nan
    user, nice, system, _, _, irq, softirq, steal = map(int, fields)
    everyone = (user + nice + system + irq + softirq + steal) / os.sysconf('SC_CLK_TCK')
    return everyone - sum(os.times()[:4])


def _read(path: Path) -> str:
    return path.read_text(encoding='utf-8') if path.is_file() else ''
