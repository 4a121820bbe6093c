"""Depthwise convolution with a fast gradient of its weights on a CPU."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.ops.eager import is_eager

# Side of a kernel from which `_weight_gradient` is faster than PyTorch: docs/measurements/epyc.md.
MIN_KERNEL = 5


def depthwise_conv(x_BCHW: Tensor, weight_C1kk: Tensor, bias_C: Tensor | None = None) -> Tensor:
    """Convolve each channel with its own odd kernel; the map keeps its size.

    Values and gradients are those of `F.conv2d`, up to rounding.

    Args:
        x_BCHW: a map, best channels-last.
        weight_C1kk: kernels `(C, 1, k, k)`.
        bias_C: added to the channels.

    Returns:
        `(B, C, H, W)`, in the type of autocast if it is enabled.
    """
    if not has_fast_gradient(x_BCHW, weight_C1kk):
        return _conv(x_BCHW, weight_C1kk, bias_C)
    dtype = x_BCHW.dtype
    if torch.is_autocast_enabled('cpu'):
        dtype = torch.get_autocast_dtype('cpu')
    bias = None if bias_C is None else bias_C.to(dtype)
    with torch.autocast('cpu', enabled=False):
        return _DepthwiseConv.apply(x_BCHW.to(dtype), weight_C1kk.to(dtype), bias)


def has_fast_gradient(x_BCHW: Tensor, weight_C1kk: Tensor) -> bool:
    """Return True for eager training on the CPU with a kernel of at least `MIN_KERNEL`."""
    if x_BCHW.device.type != 'cpu' or weight_C1kk.shape[-1] < MIN_KERNEL or x_BCHW.numel() == 0:
        return False
    return is_eager(x_BCHW) and torch.is_grad_enabled() and weight_C1kk.requires_grad


def _conv(x_BCHW: Tensor, weight_C1kk: Tensor, bias_C: Tensor | None) -> Tensor:
    padding = weight_C1kk.shape[-1] // 2
    return F.conv2d(x_BCHW, weight_C1kk, bias_C, padding=padding, groups=x_BCHW.shape[1])


class _DepthwiseConv(torch.autograd.Function):
    """The backward pass consists of PyTorch's operators, so that it has derivatives itself."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x_BCHW: Tensor, weight_C1kk: Tensor, bias_C: Tensor | None) -> Tensor:
        return _conv(x_BCHW, weight_C1kk, bias_C)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        x_BCHW, weight_C1kk, _ = inputs
        ctx.save_for_backward(x_BCHW, weight_C1kk)

    @staticmethod
    def backward(ctx: Any, grad_BCHW: Tensor) -> tuple[Tensor | None, ...]:
        x_BCHW, weight_C1kk = ctx.saved_tensors
        grad_x_BCHW = grad_weight_C1kk = grad_bias_C = None
        if ctx.needs_input_grad[0]:
            grad_x_BCHW = _conv(grad_BCHW, weight_C1kk.flip(2, 3), None)
        if ctx.needs_input_grad[1]:
            grad_weight_C1kk = _weight_gradient(x_BCHW, grad_BCHW, weight_C1kk.shape[-1])
        if ctx.needs_input_grad[2]:
            grad_bias_C = grad_BCHW.sum((0, 2, 3))
        return grad_x_BCHW, grad_weight_C1kk, grad_bias_C


def _weight_gradient(x_BCHW: Tensor, grad_BCHW: Tensor, side: int) -> Tensor:
    """Gradient of the kernels, `(C, 1, k, k)`: the map of each image and channel, convolved with
    the gradient of the result as one large kernel, and summed over the images.
    """
    B, C, H, W = x_BCHW.shape
    maps = x_BCHW.transpose(0, 1).reshape(1, C * B, H, W)
    kernels = grad_BCHW.transpose(0, 1).reshape(C * B, 1, H, W)
    found = F.conv2d(maps, kernels, padding=side // 2, groups=C * B)
    return found.view(C, B, side, side).sum(dim=1, keepdim=True)
