"""Splitting channels into heads, and back."""
from __future__ import annotations

from einops import rearrange
from torch import Tensor

from mmflatten.ops.sizes import contiguous


def split_heads(x_BNC: Tensor, num_heads: int) -> Tensor:
    """`(B, N, h * d) -> (B, h, N, d)`, a view."""
    return rearrange(x_BNC, 'B N (h d) -> B h N d', h=num_heads)


def merge_heads(x_BhNd: Tensor) -> Tensor:
    """`(B, h, N, d) -> (B, N, h * d)`; a view of what `split_heads` made."""
    return contiguous(x_BhNd.transpose(1, 2)).flatten(2)
