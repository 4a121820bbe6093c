"""The machine under a measurement: what it is, and how busy others keep it."""
from __future__ import annotations

import ctypes
import math
import os
import platform
from pathlib import Path

import torch

from mmflatten.models.layers.linear import uses_onednn
from mmflatten.version import __version__

BUSY_CPUS = 0.1  # used by others, above which a measurement is called disturbed
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # options of glibc's `mallopt`


def keep_freed_memory() -> str:
    """Let glibc keep freed memory from now on; returns what the allocator does, in words.

    By default it gives large blocks back to the system on every free. Fetching them again, page by page, then takes
    longer than the arithmetic.
    """
    if platform.libc_ver()[0] != 'glibc':
        return 'default'
    libc = ctypes.CDLL(None)
    kept = libc.mallopt(M_MMAP_MAX, 0) and libc.mallopt(M_TRIM_THRESHOLD, -1)
    return 'glibc, keeps freed memory' if kept else 'default'


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
        'projections': _projections() if torch.device(device).type == 'cpu' else 'F.linear',
        'mmflatten': __version__,
    }


def _projections() -> str:
    """Which product `Linear` takes here in eager inference."""
    with torch.no_grad():
        return 'oneDNN' if uses_onednn(torch.empty(1, 1, device='cpu')) else 'F.linear'


def _processor_name() -> str:
    return _cpuinfo().get('model name') or platform.processor() or platform.machine()


def processor_family() -> str:
    """Maker, family and model of the processor, such as 'GenuineIntel family 6 model 207'."""
    found = _cpuinfo()
    if 'vendor_id' not in found:
        return platform.processor() or platform.machine()
    return f'{found["vendor_id"]} family {found["cpu family"]} model {found["model"]}'


def _cpuinfo() -> dict[str, str]:
    """What Linux tells of the first processor; empty elsewhere."""
    path = Path('/proc/cpuinfo')
    first, _, _ = (path.read_text(encoding='utf-8') if path.is_file() else '').partition('\n\n')
    return {name.strip(): value.strip() for name, _, value in (line.partition(':') for line in first.splitlines())}


def available_cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1


def free_memory(device: str) -> float:
    """MiB that tensors may still take on a device; infinity where the system does not tell."""
    if torch.device(device).type == 'cuda':
        return torch.cuda.mem_get_info(device)[0] / 2 ** 20
    info = Path('/proc/meminfo')
    lines = info.read_text(encoding='utf-8').splitlines() if info.is_file() else []
    return next((int(line.split()[1]) / 2 ** 10 for line in lines if line.startswith('MemAvailable')), math.inf)


def seconds_of_others() -> float:
    """CPU seconds that other processes have used since the system started; NaN where it does not tell (no /proc)."""
    stat = Path('/proc/stat')
    if not stat.is_file():
        return math.nan
    user, nice, system, _, _, irq, softirq, steal = map(int, stat.read_text().split(maxsplit=9)[1:9])
    everyone = (user + nice + system + irq + softirq + steal) / os.sysconf('SC_CLK_TCK')
    return everyone - sum(os.times()[:4])
