"""Projection of tokens."""
from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import cache
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from mmflatten.ops.precision import no_autocast

CHOICE = 'MMFLATTEN_PROJECTION'  # environment variable that spares the measurement
_MANY_TOKENS = 4096  # from so many on the choice is another one
_CLEAR_GAIN = 0.97  # of the time of `F.linear`; less would be noise


class Linear(nn.Linear):
    """`torch.nn.Linear`, computed by oneDNN where that is faster, in inference on a CPU.

    PyTorch hands `F.linear` to MKL, which adds the bias in a pass of its own and runs at half the speed on processors
    that are not Intel's. oneDNN's product is taken without gradients, in eager float32 on the CPU, if `onednn_pays` on
    this machine. With gradients it is always `F.linear`, so that a resumed training repeats itself to the last bit.
    """

    def forward(self, x: Tensor) -> Tensor:
        return self.project(x, self.weight, self.bias)

    def gelu(self, x: Tensor) -> Tensor:
        """`gelu(self(x))`, by oneDNN in one pass."""
        if _onednn_is_taken(x):
            return _onednn(x, self.weight, self.bias, 'gelu')
        return F.gelu(self(x))

    def parts(self, widths: Sequence[int]) -> list[tuple[Tensor, Tensor | None]]:
        """Weight and bias of each of these many outputs, to `project` different inputs to them."""
        biases = [None] * len(widths) if self.bias is None else self.bias.split(widths)
        return list(zip(self.weight.split(widths), biases))

    @staticmethod
    def project(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """`x weight^T + bias`."""
        return _onednn(x, weight, bias) if _onednn_is_taken(x) else F.linear(x, weight, bias)


class FullRangeLinear(Linear):
    """`Linear` that stays in float32 where it is given that, inside float16 autocast too: products exceed float16."""

    def forward(self, x: Tensor) -> Tensor:
        device = x.device.type
        halves = torch.amp.is_autocast_available(device) and torch.get_autocast_dtype(device) == torch.float16
        if x.dtype == torch.float32 and halves:
            with no_autocast(x):
                return super().forward(x)
        return super().forward(x)


def _onednn_is_taken(x: Tensor) -> bool:
    return eager_inference(x) and onednn_pays(torch.get_num_threads(), x.shape[:-1].numel() >= _MANY_TOKENS)


def eager_inference(x: Tensor) -> bool:
    """Whether `x` is float32 on the CPU, and nobody follows what becomes of it: no gradient, graph, trace or count."""
    followed = (torch.is_grad_enabled() or torch.compiler.is_compiling() or torch.jit.is_tracing()
                or is_in_torch_dispatch_mode())
    return (not followed and x.device.type == 'cpu' and x.dtype == torch.float32 and x.numel() > 0
            and not torch.is_autocast_enabled('cpu'))


@cache
def onednn_pays(threads: int, many_tokens: bool) -> bool:
    """Whether oneDNN is clearly faster than `F.linear` and `F.gelu` here, in a feed-forward network.

    Measured once in a process, in some 0.1 s, unless `MMFLATTEN_PROJECTION` is 'onednn' or 'linear'.

    Args:
        threads: `torch.get_num_threads()`; another number is another machine.
        many_tokens: whether they are as many as in a first stage, where the pass for the bias weighs most.

    Raises:
        ValueError: another value of `MMFLATTEN_PROJECTION`.
    """
    choice = os.environ.get(CHOICE, '')
    if choice not in ('', 'onednn', 'linear'):
        raise ValueError(f"{CHOICE} ({choice!r}) must be 'onednn' or 'linear', or unset for the faster of the two")
    if choice == 'linear' or not hasattr(torch.ops.mkldnn, '_linear_pointwise'):
        return False
    return choice == 'onednn' or _share_of_time(*((8192, 96) if many_tokens else (784, 384))) < _CLEAR_GAIN


def _share_of_time(tokens: int, dims: int) -> float:
    """oneDNN's time for a feed-forward network as a share of `F.linear`'s and `F.gelu`'s, the median of rounds."""
    def seconds(network: Callable[[Tensor], Tensor]) -> float:
        start = time.process_time()  # other processes take none of it
        network(x)
        return time.process_time() - start

    # Constants: random numbers would be missing from those of the training that asks.
    x, expand, reduce, wide_bias, bias = (torch.ones(shape, device='cpu', dtype=torch.float32) for shape in (
        (1, tokens, dims), (4 * dims, dims), (dims, 4 * dims), (4 * dims,), (dims,)))

    def plain(x: Tensor) -> Tensor:
        return F.linear(F.gelu(F.linear(x, expand, wide_bias)), reduce, bias)

    def fused(x: Tensor) -> Tensor:
        return _onednn(_onednn(x, expand, wide_bias, 'gelu'), reduce, bias)

    return median([seconds(fused) / seconds(plain) for _ in range(7)][2:])  # the first two warm up


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str = 'none') -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, activation, [], 'none' if activation == 'gelu' else '')
