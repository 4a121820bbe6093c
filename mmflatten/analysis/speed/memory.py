"""Peak memory of a call, as the allocator of the device sees it."""
from __future__ import annotations

import json
import tempfile
import warnings
from itertools import accumulate
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from mmflatten.analysis.speed.timing import Subject

_EVENT = '[memory]'


def peak_memory(subject: Subject, device: str = 'cpu') -> int:
    """Bytes of the tensors that one call makes, at the moment when they are most.

    What was there before (weights, input) does not count. On a GPU, `torch.cuda.max_memory_allocated` tells. On the
    CPU every allocation and release of PyTorch's allocator is added up, so the figure is exact, the same each time
    and free of what glibc keeps; buffers inside oneDNN and MKL, which ask the system themselves, are not in it.
    """
    with subject.around():
        subject.call()  # what is made once and kept, such as a compiled graph, is not the call's
        return _peak_on_cuda(subject) if torch.device(device).type == 'cuda' else _peak_on_cpu(subject)


def _peak_on_cuda(subject: Subject) -> int:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    subject.call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _peak_on_cpu(subject: Subject) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # the profiler's remark on cycles, of which there is one
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            subject.call()
    with tempfile.TemporaryDirectory() as folder:  # the trace is the public way to single allocations
        trace = Path(folder) / 'trace.json'
        profiler.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text(encoding='utf-8'))['traceEvents']
    changes = sorted((event['ts'], event['args']['Ev Idx'], event['args']['Bytes'])
                     for event in events if event.get('name') == _EVENT)
    return max(accumulate((size for _, _, size in changes), initial=0))
