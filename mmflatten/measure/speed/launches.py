"""Busy time, launches and host time of a call, read from a profile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

CALL = 'mmflatten call'


class Work(NamedTuple):
    """Work of one call.

    Attributes:
        busy_s: seconds in which the device runs at least one kernel, copy or fill.
        launches: number of kernels, copies and fills.
        host_s: seconds until the call returns on the host, without waiting for the device.
    """

    busy_s: float
    launches: int
    host_s: float


def profile_call(call: Callable[[], object]) -> Work:
    """Profile one call on the current GPU, after another one. The profiler itself makes the host
    slower.
    """
    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        with record_function(CALL):
            call()
        torch.cuda.synchronize()
    return work_of(profiler.profiler.kineto_results.events(), DeviceType.CUDA)


def work_of(events: Sequence[Any], device: DeviceType) -> Work:
    """Aggregate the Kineto events of a call inside `record_function(CALL)`. Overlapping events
    count once as busy.
    """
    host = 0
    spans = []
    for event in events:
        start = event.start_ns()
        duration = event.duration_ns()
        if event.name() == CALL:
            # The call has a second event on the device.
            if event.device_type() == DeviceType.CPU:
                host += duration
        elif event.device_type() == device:
            spans.append((start, start + duration))
    busy = 0
    end = 0
    for start, stop in sorted(spans):
        busy += max(0, stop - max(start, end))
        end = max(end, stop)
    return Work(busy_s=busy / 1e9, launches=len(spans), host_s=host / 1e9)
