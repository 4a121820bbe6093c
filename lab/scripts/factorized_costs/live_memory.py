"""Memory of live tensors, computed without allocating them."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def live_peak(function: Callable[[Tensor], Any], x: Tensor, *, training: bool = False) -> int:
    """Compute the peak number of bytes of live tensors during `function(x)`, including `x` but not parameters.

    Works with meta tensors. A storage counts once, regardless of its number of views. Temporary buffers of kernels and
    the overhead of the allocator are not included.

    Args:
        function: a module or a function.
        x: input, on the device of the parameters.
        training: keep the tensors that the backward pass needs.
    """
    known = [*function.parameters(), *function.buffers()] if isinstance(function, nn.Module) else []
    with torch.set_grad_enabled(training), _LiveStorages(x, known) as storages:
        function(x)
    return storages.peak


class _LiveStorages(TorchDispatchMode):
    """Sums the live storages after each operator: `x` and all storages created since, except `known`."""

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
