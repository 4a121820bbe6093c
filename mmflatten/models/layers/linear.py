"""Projection of tokens."""
from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

from mmflatten.ops.precision import no_autocast

_CLEAR_GAIN = 0.95  # of the time of `F.linear`; less would be noise


class Linear(nn.Linear):
    """`torch.nn.Linear`, computed as a 1 x 1 convolution where that is faster: on some CPUs, in inference.

    PyTorch hands `F.linear` to MKL, whose float32 products run at half the speed on processors that are not Intel's,
    and convolutions to oneDNN. Tokens are a channels-last map, so the convolution requires no copy. It is taken
    without gradients, in eager float32 on the CPU, if `convolution_pays` on this machine.
    """

    def forward(self, x: Tensor) -> Tensor:
        return self.project(x, self.weight, self.bias)

    def rows(self, x: Tensor, *parts: slice) -> Tensor:
        """Only these rows of the projection, `(..., C_in)` to the channels of all `parts` side by side."""
        weight, bias = (None if p is None else torch.cat([p[part] for part in parts]) if len(parts) > 1 else p[parts[0]]
                        for p in (self.weight, self.bias))
        return self.project(x, weight, bias)

    @staticmethod
    def project(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """`x weight^T + bias`."""
        eager_cpu = x.device.type == 'cpu' and x.dtype == torch.float32 and not torch.is_autocast_enabled('cpu')
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or not eager_cpu or not x.numel():
            return F.linear(x, weight, bias)
        return _convolve(x, weight, bias) if convolution_pays() else F.linear(x, weight, bias)


class FullRangeLinear(Linear):
    """`Linear` that stays in float32 where it is given that, inside float16 autocast too: products exceed float16."""

    def forward(self, x: Tensor) -> Tensor:
        device = x.device.type
        halves = torch.amp.is_autocast_available(device) and torch.get_autocast_dtype(device) == torch.float16
        if x.dtype == torch.float32 and halves:
            with no_autocast(x):
                return super().forward(x)
        return super().forward(x)


@cache
def convolution_pays() -> bool:
    """Whether 1 x 1 convolutions project tokens clearly faster than `F.linear` here; measured once, in some 60 ms."""

    def seconds(project: Callable[[Tensor, Tensor, Tensor], Tensor]) -> float:
        start = time.perf_counter()
        project(project(x, expand, wide_bias), reduce, bias)
        return time.perf_counter() - start

    with _disable_current_modes():  # whoever counts the operators of a model must not count these
        # The feed-forward network of a first stage, with biases, which `F.linear` adds in a pass of its own. Constants:
        # random numbers would be missing from those of the training that asks.
        x, expand, reduce, wide_bias, bias = (torch.ones(shape, device='cpu', dtype=torch.float32) for shape in (
            (1, 12544, 96), (384, 96), (96, 384), (384,), (96,)))
        rounds = [(seconds(_convolve), seconds(F.linear)) for _ in range(4)]
    convolution, linear = (min(times) for times in zip(*rounds))
    return convolution < _CLEAR_GAIN * linear


def _convolve(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    x_1CN1 = x.reshape(1, -1, 1, x.shape[-1]).permute(0, 3, 1, 2)
    y_1CN1 = F.conv2d(x_1CN1, weight[:, :, None, None], bias)
    return y_1CN1.permute(0, 2, 3, 1).reshape(*x.shape[:-1], -1)
