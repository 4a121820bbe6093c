"""Splitting channels into heads, and merging them."""

from __future__ import annotations

from einops import rearrange
from torch import Tensor

from mmflatten.ops.sizes import contiguous


def split_heads(x_BNC: Tensor, num_heads: int) -> Tensor:
    """Split channels into heads, `(B, N, h * d) -> (B, h, N, d)`. Returns a view."""
    return rearrange(x_BNC, 'B N (h d) -> B h N d', h=num_heads)


def merge_heads(x_BhNd: Tensor) -> Tensor:
    """Merge heads, `(B, h, N, d) -> (B, N, h * d)`. Copies unless the heads of a token are
    adjacent.
    """
    return contiguous(x_BhNd.transpose(1, 2)).flatten(2)
