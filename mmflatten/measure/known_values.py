"""Values of small tensors on the meta device, for models that pass sizes of maps as tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakIdKeyDictionary

LARGEST = 64  # elements; the sizes of eight maps are 16


class KnownValues(TorchDispatchMode):
    """Remember the values of small meta tensors that are computed from tensors with values.

    A tensor on the meta device has no values, so `item()` raises an error. Deformable attention
    needs it: mmdet copies the sizes of the feature maps to the device of the features and reads
    them there to split the tokens. In this mode each operator whose arguments all have values, and
    at most `LARGEST` elements, also runs on the CPU; `item()`, `int()` and loops over such a tensor
    return what they would on another device.
    """

    def __init__(self) -> None:
        super().__init__()
        self._values = WeakIdKeyDictionary()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        inputs = _tensors((args, kwargs))
        known = bool(inputs) and all(map(self._is_known, inputs))
        if known and func is torch.ops.aten._local_scalar_dense.default:
            return func(*self._with_values(args))
        out = func(*args, **kwargs)
        results = [result for result in _tensors(out) if result.is_meta]
        if known and results:
            on_cpu = {**kwargs, 'device': 'cpu'} if 'device' in kwargs else kwargs
            values = func(*self._with_values(args), **self._with_values(on_cpu))
            self._remember(out, values)
        elif func._schema.is_mutable:
            self._forget(inputs)
        return out

    def _is_known(self, tensor: Tensor) -> bool:
        return tensor.numel() <= LARGEST and (not tensor.is_meta or tensor in self._values)

    def _with_values(self, tree: Any) -> Any:
        def value_of(leaf: Any) -> Any:
            return self._values.get(leaf, leaf) if isinstance(leaf, Tensor) else leaf

        return tree_map(value_of, tree)

    def _remember(self, out: Any, values: Any) -> None:
        for result, value in zip(tree_leaves(out), tree_leaves(values), strict=True):
            if isinstance(result, Tensor) and result.is_meta and result.numel() <= LARGEST:
                self._values[result] = value

    def _forget(self, changed: list[Tensor]) -> None:
        """Drop all values if an operator without values changed a tensor that has one, or a view of
        it.
        """
        if any(tensor in self._values for tensor in changed):
            self._values = WeakIdKeyDictionary()


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]
