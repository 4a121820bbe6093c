"""Projection of tokens."""
from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import cache
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.modules.module import _has_any_global_hook
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from mmflatten.ops.precision import no_autocast

CHOICE = 'MMFLATTEN_PROJECTION'  # environment variable that spares the measurement
MANY_TOKENS = 4096  # from so many on the choice is another one
_CLEAR_GAIN = 0.97  # of the time of `F.linear`; less would be noise


class Linear(nn.Linear):
    """`torch.nn.Linear`, computed by oneDNN where that is faster, in inference on a CPU.

    PyTorch hands `F.linear` to MKL, which adds the bias in a pass of its own. oneDNN's product is taken without
    gradients, in eager float32 on the CPU, if `onednn_pays` on this machine. With gradients it is always `F.linear`, so
    that a resumed training repeats itself to the last bit.
    """

    def forward(self, x: Tensor) -> Tensor:
        return self.project(x, self.weight, self.bias)

    def fused_gelu(self, x: Tensor) -> Tensor | None:
        """`gelu(self(x))` by oneDNN in one pass, None where it is not taken."""
        return _onednn(x, self.weight, self.bias, 'gelu') if onednn_is_taken(x) else None

    def parts(self, widths: Sequence[int]) -> list[tuple[Tensor, Tensor | None]]:
        """Weight and bias of each of these many outputs, to `project` different inputs to them."""
        biases = [None] * len(widths) if self.bias is None else self.bias.split(widths)
        return list(zip(self.weight.split(widths), biases))

    @staticmethod
    def project(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """`x weight^T + bias`."""
        return _onednn(x, weight, bias) if onednn_is_taken(x) else F.linear(x, weight, bias)


class FullRangeLinear(Linear):
    """`Linear` that stays in float32 where it is given that, in float16 autocast and models too: products exceed it."""

    def forward(self, x: Tensor) -> Tensor:
        device = x.device.type
        autocast = torch.get_autocast_dtype(device) if torch.amp.is_autocast_available(device) else None
        if x.dtype != torch.float32 or torch.float16 not in (self.weight.dtype, autocast):
            return super().forward(x)
        with no_autocast(x):
            bias = None if self.bias is None else self.bias.float()
            return self.project(x, self.weight.float(), bias).to(self.weight.dtype)


def gelu_of(layer: nn.Module, *inputs: Any) -> Tensor:
    """`gelu(layer(*inputs))`, in one pass if the layer has a `fused_gelu` and nobody is to see what lies between."""
    fused_gelu: Callable[..., Tensor | None] | None = getattr(layer, 'fused_gelu', None)
    if fused_gelu is not None and not _is_followed(layer):
        if (y := fused_gelu(*inputs)) is not None:
            return y
    return F.gelu(layer(*inputs))


def _is_followed(layer: nn.Module) -> bool:
    """Whether a hook, or a `forward` that a tool has put in place of the class's, sees what the layer returns."""
    return _has_any_global_hook() or any(part._forward_hooks or part._forward_pre_hooks or 'forward' in part.__dict__
                                         for part in layer.modules())


def onednn_is_taken(x: Tensor) -> bool:
    """Whether `Linear` lets oneDNN project `x`."""
    return onednn_is_allowed(x) and onednn_pays(torch.get_num_threads(), x.shape[:-1].numel() >= MANY_TOKENS)


def onednn_is_allowed(x: Tensor) -> bool:
    """Whether oneDNN's own operators may have `x`: float32 on the CPU, which no gradient, graph or count follows."""
    if torch.compiler.is_compiling() or _choice() == 'linear':
        return False
    followed = (torch.is_grad_enabled() or torch.jit.is_tracing() or is_in_torch_dispatch_mode()
                or forward_ad.unpack_dual(x).tangent is not None)
    return (not followed and x.device.type == 'cpu' and x.dtype == torch.float32 and x.numel() > 0
            and not torch.is_autocast_enabled('cpu') and bool(torch.backends.mkldnn.enabled)
            and hasattr(torch.ops.mkldnn, '_linear_pointwise'))


def _choice() -> str:
    choice = os.environ.get(CHOICE, '')
    if choice not in ('', 'onednn', 'linear'):
        raise ValueError(f"{CHOICE} ({choice!r}) must be 'onednn' or 'linear', or unset for the faster of the two")
    return choice


@cache
def onednn_pays(threads: int, many_tokens: bool) -> bool:
    """Whether oneDNN is clearly faster than `F.linear` and `F.gelu` here, in a feed-forward network.

    Measured once in a process, in some 0.3 s, unless `MMFLATTEN_PROJECTION` is 'onednn'.

    Args:
        threads: `torch.get_num_threads()`; another number is another machine.
        many_tokens: whether they are as many as in a first stage, where the pass for the bias weighs most.

    Raises:
        ValueError: another value of `MMFLATTEN_PROJECTION`.
    """
    return _choice() == 'onednn' or _share_of_time(*((8192, 96) if many_tokens else (784, 384))) < _CLEAR_GAIN


def _share_of_time(tokens: int, dims: int) -> float:
    """oneDNN's time for a feed-forward network as a share of `F.linear`'s and `F.gelu`'s, the median of rounds."""
    def seconds(network: Callable[[Tensor], Tensor]) -> float:
        start = time.perf_counter()  # CPU time of several threads is counted by the tick, which is too coarse here
        network(x)
        return time.perf_counter() - start

    # Constants: random numbers would be missing from those of the training that asks.
    x, expand, reduce, wide_bias, bias = (torch.ones(shape, device='cpu', dtype=torch.float32) for shape in (
        (1, tokens, dims), (4 * dims, dims), (dims, 4 * dims), (4 * dims,), (dims,)))

    def plain(x: Tensor) -> Tensor:
        return F.linear(F.gelu(F.linear(x, expand, wide_bias)), reduce, bias)

    def fused(x: Tensor) -> Tensor:
        return _onednn(_onednn(x, expand, wide_bias, 'gelu'), reduce, bias)

    return median([seconds(fused) / seconds(plain) for _ in range(11)][2:])  # the first two warm up


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str = 'none') -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, activation, [], 'none' if activation == 'gelu' else '')
