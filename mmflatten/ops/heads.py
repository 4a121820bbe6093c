"""Splitting channels into heads, and back."""
from __future__ import annotations

from torch import Tensor


def split_heads(x_BNC: Tensor, num_heads: int) -> Tensor:
    """`(B, N, h * d) -> (B, h, N, d)`, a view."""
    return x_BNC.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge_heads(x_BhNd: Tensor) -> Tensor:
    """`(B, h, N, d) -> (B, N, h * d)`."""
    return x_BhNd.transpose(1, 2).flatten(2)
