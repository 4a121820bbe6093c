"""Launchers of the kernels of the depthwise convolution of tokens."""
from __future__ import annotations

import torch
import triton
from torch import Tensor

from mmflatten.ops.kernels import convolution_kernels as kernels
from mmflatten.ops.kernels import launch
from mmflatten.ops.kernels.launch import chunks_of

BLOCK, GRADIENT_BLOCK, WARPS = 32, 8, 4  # tokens per tile, and for the gradient of the weights


def channels_of(channels: int) -> int:
    """Return the channels per program."""
    return 64 if channels % 64 == 0 else 32


def forward(x: Tensor, weight: Tensor, bias: Tensor, height: int, width: int) -> Tensor:
    """Same as `convolution._forward`, with a kernel."""
    return _convolve(x, weight, bias, height, width, flip=False)


def backward(grad: Tensor, x: Tensor, weight: Tensor, height: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of the tokens, of the weights `(C_w, 1, k, k)` and of the bias `(C_w,)`."""
    B, N, C = x.shape
    x, grad, side, shared = _readable(x), grad.contiguous(), weight.shape[-1], weight.shape[0]
    grad_x = _convolve(grad, weight, None, height, width, flip=True)
    BC = channels_of(C)
    lines = triton.cdiv(C, BC) * side
    chunk, chunks = chunks_of(B * lines, height * width, GRADIENT_BLOCK)
    partial = x.new_empty(B, chunks, side * side + 1, C, dtype=torch.float32)
    launch.run(kernels.weight_backward_kernel, (B, chunks, lines), grad=grad, x=x, partial=partial, height=height,
               width=width, prefix=N - height * width, chunk=chunk, stride_b=x.stride(0), stride_n=x.stride(1),
               SIDE=side, SIDE_P=triton.next_power_of_2(side), CHANNELS=C, BLOCK=GRADIENT_BLOCK, BC=BC,
               num_warps=WARPS, num_stages=1)
    sums = partial.sum((0, 1)).view(side * side + 1, -1, shared).sum(1).to(weight.dtype)
    return grad_x, sums[:-1].t().reshape(weight.shape), sums[-1]


def _convolve(x: Tensor, weight: Tensor, bias: Tensor | None, height: int, width: int, flip: bool) -> Tensor:
    B, N, C = x.shape
    x, prefix, BC, shared, side = _readable(x), N - height * width, channels_of(C), weight.shape[0], weight.shape[-1]
    taps = weight.reshape(shared, side * side).t().float().contiguous()  # channels last, as in the tokens
    y = x.new_zeros(B, N, C) if prefix else x.new_empty(B, N, C)
    launch.run(kernels.convolve_kernel, (B, triton.cdiv(height * width, BLOCK), triton.cdiv(C, BC)), x=x, weight=taps,
               bias=taps if bias is None else bias.float(), y=y, height=height, width=width, prefix=prefix,
               stride_b=x.stride(0), stride_n=x.stride(1), HAS_BIAS=bias is not None, FLIP=flip, SIDE=side, CHANNELS=C,
               WEIGHTS=shared, BLOCK=BLOCK, BC=BC, num_warps=WARPS, num_stages=1)
    return y


def _readable(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()
