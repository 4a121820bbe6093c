"""Peak memory of a call, as the device's allocator reports it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from itertools import accumulate

import torch
from torch.profiler import ProfilerActivity, profile


def peak_memory(call: Callable[[], object], device: str = 'cpu') -> int:
    """Largest number of bytes that one call allocates at a time, without what exists before it
    (weights, input).

    On a GPU this is `torch.cuda.max_memory_allocated`. On the CPU all allocations and releases of
    PyTorch's allocator are added up, so the result is exact and repeatable; buffers inside oneDNN
    and MKL are not included.
    """
    call()  # allocates what is kept, such as a compiled graph
    return _cpu_peak(call) if torch.device(device).type == 'cpu' else _cuda_peak(call)


def _cuda_peak(call: Callable[[], object]) -> int:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _cpu_peak(call: Callable[[], object]) -> int:
    # Otherwise the profiler writes to the standard error every time.
    os.environ.setdefault('KINETO_LOG_LEVEL', '99')
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # the profiler warns about profiling a single cycle
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            call()
    events = profiler.profiler.kineto_results.events()
    changes = [event for event in events if event.name() == '[memory]']
    changes.sort(key=lambda event: event.start_ns())
    # An event allocates (positive) or releases (negative) bytes.
    return max(accumulate((event.nbytes() for event in changes), initial=0))
