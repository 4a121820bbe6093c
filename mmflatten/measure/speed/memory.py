"""Peak memory of a call: as the device's allocator sees it, or from the tensors alone, without allocating them."""
from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def peak_memory(call: Callable[[], object], device: str = 'cpu') -> int:
    """Bytes of the tensors that one call makes, at the moment when they are most.

    What was there before (weights, input) does not count. On a GPU, `torch.cuda.max_memory_allocated` tells. On the
    CPU every allocation and release of PyTorch's allocator is added up, so the figure is exact, the same each time
    and free of what glibc keeps; buffers inside oneDNN and MKL, which ask the system themselves, are not in it.
    """
    call()  # what is made once and kept, such as a compiled graph, is not the call's
    if torch.device(device).type == 'cpu':
        return _peak_on_cpu(call)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _peak_on_cpu(call: Callable[[], object]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # the profiler's remark on cycles, of which there is one
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            call()
    with tempfile.TemporaryDirectory() as folder:  # the trace is the public way to single allocations
        trace = Path(folder) / 'trace.json'
        profiler.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text(encoding='utf-8'))['traceEvents']
    changes = sorted((event['ts'], event['args']['Ev Idx'], event['args']['Bytes'])
                     for event in events if event.get('name') == '[memory]')
    return max(accumulate((size for _, _, size in changes), initial=0))


def live_peak(function: Callable[[Tensor], Any], x: Tensor, *, training: bool = False) -> int:
    """The most bytes of tensors alive at once while `function(x)` runs, `x` included; parameters are not.

    On the meta device nothing is allocated. A storage counts once, however many views it has. Buffers inside a kernel
    stay unseen, as does whatever the allocator rounds up or keeps.

    Args:
        function: a module, say.
        x: its input. If it is a meta tensor, the function's parameters must be on that device too.
        training: with gradients, so that everything that the backward pass needs is kept.
    """
    known = [*function.parameters(), *function.buffers()] if isinstance(function, nn.Module) else []
    with torch.set_grad_enabled(training), _LiveStorages(x, known) as storages:
        function(x)
    return storages.peak


class _LiveStorages(TorchDispatchMode):
    """Adds up the storages alive after each operator: that of `x` and those made since, but none of `known`."""

    def __init__(self, x: Tensor, known: list[Tensor]) -> None:
        super().__init__()
        self._known = {tensor.untyped_storage() for tensor in known}
        self._alive = WeakSet([x.untyped_storage()])
        self.peak = 0

    def __torch_dispatch__(self, func: OpOverload, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        storages = {leaf.untyped_storage() for leaf in tree_leaves(out) if isinstance(leaf, Tensor)}
        self._alive |= storages - self._known
        self.peak = max(self.peak, sum(storage.nbytes() for storage in self._alive))
        return out
