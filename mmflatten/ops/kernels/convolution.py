"""Depthwise convolution of tokens as a PyTorch operator, `mmflatten::token_convolution`, and its backward."""
from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor
from torch.nn.grad import conv2d_input, conv2d_weight


def token_convolution(x_BNC: Tensor, weight_C1kk: Tensor, bias_C: Tensor, hw_shape: tuple[int, int]) -> Tensor:
    """Depthwise convolution on the map of the tokens, read in place. The output of prefix tokens is 0.

    On a GPU half-precision inputs are summed in float32. Under autocast the tokens are cast to its type, as for
    `F.conv2d`. There is no second derivative. Cost: `k^2 N C` multiply-accumulates.

    Args:
        x_BNC: tokens, of which the last `H * W` form the map.
        weight_C1kk: weights `(C_w, 1, k, k)` with an odd `k`, repeated for every `C_w` channels.
        bias_C: bias `(C_w,)`, repeated in the same way.
        hw_shape: `(H, W)`.

    Returns:
        `(B, N, C)` in the type of `x`, or of autocast.

    Raises:
        ValueError: the weights do not match the channels, or the map does not match the tokens.
    """
    if not 0 < hw_shape[0] * hw_shape[1] <= x_BNC.shape[1]:
        raise ValueError(f'hw_shape: expected (H, W) with 1 to {x_BNC.shape[1]} tokens for x_BNC '
                         f'{tuple(x_BNC.shape)}, got {tuple(hw_shape)}.')
    if x_BNC.shape[2] % weight_C1kk.shape[0] or weight_C1kk.shape[-1] % 2 == 0:
        raise ValueError(f'weight_C1kk: expected (C_w, 1, k, k) with an odd k and a C_w that divides the channels of '
                         f'x_BNC {tuple(x_BNC.shape)}, got {tuple(weight_C1kk.shape)}.')
    device = x_BNC.device.type
    if x_BNC.dtype == torch.float32 and torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        x_BNC = x_BNC.to(torch.get_autocast_dtype(device))
    return _forward(x_BNC, weight_C1kk, bias_C, hw_shape[0], hw_shape[1])


@torch.library.custom_op('mmflatten::token_convolution', mutates_args=(), device_types='cpu')
def _forward(x: Tensor, weight: Tensor, bias: Tensor, height: int, width: int) -> Tensor:
    prefix, x_BCHW = _map(x, height, width)
    groups, C = x.shape[2] // weight.shape[0], x.shape[2]
    y_BCHW = F.conv2d(x_BCHW, weight.repeat(groups, 1, 1, 1).to(x.dtype), bias.repeat(groups).to(x.dtype),
                      padding=weight.shape[-1] // 2, groups=C)
    return _tokens(prefix, y_BCHW)


@torch.library.custom_op('mmflatten::token_convolution_backward', mutates_args=(), device_types='cpu')
def _backward(grad: Tensor, x: Tensor, weight: Tensor, height: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    prefix, x_BCHW = _map(x, height, width)
    _, grad_BCHW = _map(grad, height, width)
    shared, C, sizes = weight.shape[0], x.shape[2], dict(padding=weight.shape[-1] // 2, groups=x.shape[2])
    repeated = weight.repeat(C // shared, 1, 1, 1).to(x.dtype)
    grad_x = conv2d_input(x_BCHW.shape, repeated, grad_BCHW, **sizes)
    grad_weight = conv2d_weight(x_BCHW, repeated.shape, grad_BCHW, **sizes)
    grad_weight = grad_weight.to(weight.dtype).view(-1, *weight.shape).sum(0)
    grad_bias = grad_BCHW.sum((0, 2, 3), dtype=weight.dtype).view(-1, shared).sum(0)
    return _tokens(prefix, grad_x), grad_weight, grad_bias


def _map(x: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    prefix = x.shape[1] - height * width
    return x[:, :prefix], rearrange(x[:, prefix:], 'B (H W) C -> B C H W', H=height)


def _tokens(prefix: Tensor, x_BCHW: Tensor) -> Tensor:
    return torch.cat((torch.zeros_like(prefix), rearrange(x_BCHW, 'B C H W -> B (H W) C')), dim=1)


@_forward.register_kernel('cuda')
def _forward_on_gpu(x: Tensor, weight: Tensor, bias: Tensor, height: int, width: int) -> Tensor:
    from mmflatten.ops.kernels import launch_convolution  # requires Triton
    return launch_convolution.forward(x, weight, bias, height, width)


@_backward.register_kernel('cuda')
def _backward_on_gpu(grad: Tensor, x: Tensor, weight: Tensor, height: int,
                     width: int) -> tuple[Tensor, Tensor, Tensor]:
    from mmflatten.ops.kernels import launch_convolution
    return launch_convolution.backward(grad, x, weight, height, width)


@_forward.register_fake
def _forward_shape(x: Tensor, *others: object) -> Tensor:
    return x.new_empty(x.shape)


@_backward.register_fake
def _backward_shapes(grad: Tensor, x: Tensor, weight: Tensor, *others: object) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape), weight.new_empty(weight.shape[0])


def _save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    x, weight, bias, *ctx.size = inputs
    ctx.save_for_backward(x, weight)


def _gradients(ctx: Any, grad: Tensor) -> tuple:
    return *_backward(grad, *ctx.saved_tensors, *ctx.size), None, None


_forward.register_autograd(_gradients, setup_context=_save)
