"""Memory of PyTorch on the CPU, in the processes of all commands."""

import ctypes
import os
import sys

# Parameters of mallopt(3) of the GNU C library.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LARGEST = 2**31 - 1  # an int of C
# Bytes of a block that is still taken from the heap, which is larger than a map of a model.
_LARGE_BLOCK = 2**30


def keep_freed_memory() -> None:
    """Let the GNU C library keep the memory that a program frees, for its next blocks, unless the
    environment has settings of its own (`MALLOC_...`, `GLIBC_TUNABLES`).

    By default, it returns large blocks to the system. A training step frees each of its maps, and
    the next one gets new memory, which the system fills with zeros page by page: docs/benchmark.md
    has the figures. The peak of a process stays about the same. Other C libraries are left alone.
    """
    if any(name.startswith(('MALLOC_', 'GLIBC_TUNABLES')) for name in os.environ):
        return
    if sys.platform != 'linux':
        return
    mallopt = getattr(ctypes.CDLL(None), 'mallopt', None)  # musl has none
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)
        mallopt(_M_TRIM_THRESHOLD, _LARGEST)
