"""Helpers of the launchers: the layouts that the kernels expect, and the chunks of their loops."""

from __future__ import annotations

from typing import Any

import triton
from torch import Tensor

_PROGRAMS = 384  # nearly three for each of the 132 multiprocessors of an H100 or H200
_MIN_CHUNK = 256  # tokens per program, if the batch is large enough


def run(kernel: triton.JITFunction, grid: tuple[int, ...], **arguments: Any) -> None:
    """Launch a kernel on the current device."""
    kernel[grid](**arguments)


def readable(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return tensors `(B, h, N, d)` with contiguous tokens and one layout for keys and values,
    copied if necessary.
    """
    q = q if is_readable(q) else as_tokens(q)
    if k.stride() != v.stride() or not is_readable(k):
        k, v = as_tokens(k), as_tokens(v)
    return q, k, v


def is_readable(x_BhNd: Tensor) -> bool:
    """Return True if the channels of all heads of a token are contiguous."""
    return x_BhNd.stride(3) == 1 and x_BhNd.stride(1) == x_BhNd.shape[3]


def as_tokens(x_BhNd: Tensor) -> Tensor:
    return x_BhNd.transpose(1, 2).contiguous().transpose(1, 2)


def contiguous(position_hMd: Tensor | None, *others: Tensor | None) -> list[Tensor | None]:
    """Return the optional tensors contiguous in memory, the positions as `(M, h, d)`."""
    position_Mhd = None if position_hMd is None else position_hMd.transpose(0, 1)
    return [None if x is None else x.contiguous() for x in (position_Mhd, *others)]


def optional(x: Tensor | None, placeholder: Tensor) -> Tensor:
    """Return `x`, or if it is None a placeholder that the kernel does not read."""
    return placeholder if x is None else x


def total(x: Tensor, dim: int) -> Tensor:
    """Sum over an axis, without a launch if it has one element."""
    return x.squeeze(dim) if x.shape[dim] == 1 else x.sum(dim)


def chunks_of(images: int, tokens: int, block: int) -> tuple[int, int]:
    """Return the tokens per program, a multiple of the block, and the programs per image."""
    wanted = max(1, min(triton.cdiv(_PROGRAMS, images), triton.cdiv(tokens, _MIN_CHUNK)))
    chunk = triton.cdiv(triton.cdiv(tokens, wanted), block) * block
    return chunk, triton.cdiv(tokens, chunk)
