"""Memory of the tensors that a call makes, on any device: on the meta device it is known without allocating it."""
from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveMemory(TorchDispatchMode):
    """Context manager that adds up the storages that operators make inside it, and takes off those that are freed.

    A storage counts once, however many views it has. Buffers inside a kernel stay unseen, as does whatever the
    allocator rounds up or keeps.

    Args:
        known: tensors from before: operators that return them, or write into them, allocate nothing.
    """

    def __init__(self, *known: Tensor) -> None:
        super().__init__()
        self.live = self.peak = 0  # bytes alive now, and the most after any operator
        self._storages = {tensor.untyped_storage()._cdata for tensor in known}

    def __torch_dispatch__(self, func: OpOverload, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                self._add(leaf)
        return out

    def _add(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._storages:
            return
        self._storages.add(key)
        self.live += storage.nbytes()
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._free, key, storage.nbytes())

    def _free(self, key: int, nbytes: int) -> None:
        self._storages.discard(key)
        self.live -= nbytes


def peak_bytes(function: Callable[[Tensor], Any], x: Tensor, *, training: bool = False) -> int:
    """The most bytes alive at once while `function(x)` runs, `x` included; parameters are not.

    Args:
        function: a module, say.
        x: its input; a meta tensor makes the figure free (the function's parameters must then be on that device too).
        training: with gradients, so that everything which the backward pass needs is kept.
    """
    known = (*function.parameters(), *function.buffers()) if isinstance(function, torch.nn.Module) else ()
    with torch.set_grad_enabled(training), LiveMemory(x, *known) as memory:
        function(x)
    return memory.peak + x.untyped_storage().nbytes()
