"""Launchers of the kernels of the depthwise convolution of tokens."""
from __future__ import annotations

import triton
from torch import Tensor

from mmflatten.ops.kernels import convolution_kernels as kernels
from mmflatten.ops.kernels.launch_attention import chunks_of

BLOCK, WARPS = 32, 4


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
    chunk, chunks = chunks_of(B * lines, height * width, BLOCK)
    partial = x.new_empty(B, chunks, side * side + 1, C, dtype=weight.dtype)
    kernels.weight_backward_kernel[(B, chunks, lines)](
        grad, x, partial, height, width, N - height * width, chunk, *x.stride()[:2], SIDE=side,
        SIDE_P=triton.next_power_of_2(side), CHANNELS=C, BLOCK=BLOCK, BC=BC, num_warps=WARPS)
    sums = partial.sum((0, 1)).view(side * side + 1, -1, shared).sum(1)
    return grad_x, sums[:-1].t().reshape(weight.shape), sums[-1]


def _convolve(x: Tensor, weight: Tensor, bias: Tensor | None, height: int, width: int, flip: bool) -> Tensor:
    B, N, C = x.shape
    x, weight, prefix, BC = _readable(x), weight.contiguous(), N - height * width, channels_of(C)
    y = x.new_zeros(B, N, C) if prefix else x.new_empty(B, N, C)
    kernels.convolve_kernel[(B, triton.cdiv(height * width, BLOCK), triton.cdiv(C, BC))](
        x, weight, weight if bias is None else bias, y, height, width, prefix, *x.stride()[:2],
        HAS_BIAS=bias is not None, FLIP=flip, SIDE=weight.shape[-1], CHANNELS=C, WEIGHTS=weight.shape[0], BLOCK=BLOCK,
        BC=BC, num_warps=WARPS)
    return y


def _readable(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()
