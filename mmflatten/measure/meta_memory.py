"""Peak memory of a forward pass from shapes alone: on the meta device, nothing is allocated or
computed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mmflatten.measure.known_values import KnownValues


def planned_memory(call: Callable[[], Any]) -> int:
    """Largest number of bytes that the tensors which a call makes on the meta device would have at
    a time.

    It counts the results of all operators from their making to their release, without gradients. It
    does not count what exists before the call (weights, input), nor buffers inside an operator.
    Fused attention is counted as fused, although it is not on the meta device.
    `mmflatten.measure.speed.memory.peak_memory` measures the same call.
    """
    tensors = _LiveTensors()
    with torch.no_grad(), _FusedAttention(), KnownValues(), tensors:
        call()
    return tensors.peak


class _LiveTensors(TorchDispatchMode):
    """Adds up the storages of all results, until Python releases them."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = self._bytes = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        out = func(*args, **kwargs or {})
        inputs = {_key(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        for leaf in tree_leaves(out):
            if not isinstance(leaf, Tensor):
                continue
            # Views and operators in place return a storage that exists already.
            key = _key(leaf)
            if key not in inputs and key not in self._known:
                self._add(leaf.untyped_storage())
        return out

    def _add(self, storage: torch.UntypedStorage) -> None:
        size = storage.nbytes()
        key = storage._cdata
        self._bytes += size
        self.peak = max(self.peak, self._bytes)
        self._known.add(key)
        weakref.finalize(storage, self._release, key, size)

    def _release(self, key: int, size: int) -> None:
        self._known.discard(key)
        self._bytes -= size


class _FusedAttention(TorchFunctionMode):
    """Makes only the result of fused attention. On the meta device PyTorch would also make the (N,
    N) map.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention:
            named = dict(zip(('query', 'key', 'value'), args)) | kwargs
            query, value = named['query'], named['value']
            return query.new_empty(*query.shape[:-1], value.shape[-1])
        return func(*args, **kwargs)


def _key(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
