"""Lower bound of a model's time: its matrix products alone, by shape."""
from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from mmflatten.models.layers import Linear

aten = torch.ops.aten


def products_alone(call: Callable[[], object]) -> Callable[[], None]:
    """Return a function that repeats only the products of one call.

    Projections, products of activations and convolutions run without biases, attention without a mask, on tensors of
    the same shapes and layouts; equal ones are one tensor, so that they may lie in a cache. Projections run as
    in `Linear`.
    """
    eager = torch.compiler.set_stance('force_eager') if hasattr(torch.compiler, 'set_stance') else nullcontext()
    with eager, _Products() as collector:
        call()

    def repeat() -> None:
        with torch.inference_mode():
            for product in collector.products:
                product()

    return repeat


class _Products(TorchDispatchMode):
    """Collects a function for each product that runs."""

    def __init__(self) -> None:
        super().__init__()
        self.products: list[Callable[[], Tensor]] = []
        self._stand_ins: dict[tuple, Tensor] = {}

    def __torch_dispatch__(self, func: OpOverload, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        with self:  # inference mode keeps composite operators whole
            out = func.decompose(*args, **(kwargs or {}))
        if out is not NotImplemented:
            return out
        kind = func.overloadpacket
        if kind in (aten.mm, aten.addmm):
            x, weight = args[-2:]
            self._add(Linear.project, x, weight.t(), None)
        elif kind in (aten.bmm, aten.baddbmm):
            self._add(torch.bmm, *args[-2:])
        elif kind is aten.convolution:
            self._add(aten.convolution, *args[:2], None, *args[3:])
        elif '_scaled_dot_product' in str(kind):
            self._add(F.scaled_dot_product_attention, *args[:3])
        return func(*args, **(kwargs or {}))

    def _add(self, product: Callable[..., Tensor], *args: Any) -> None:
        """Collect a product of these arguments, with ones of the same shape and layout in place of tensors."""
        arguments = list(args)
        for index, value in enumerate(args):
            if isinstance(value, Tensor):
                key = value.shape, value.stride(), value.dtype, value.device
                if key not in self._stand_ins:
                    self._stand_ins[key] = torch.ones_like(value)
                arguments[index] = self._stand_ins[key]
        self.products.append(partial(product, *arguments))
