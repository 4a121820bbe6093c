"""Explicit references of attentions between the tokens of a whole map."""

from __future__ import annotations

import torch
from torch import Tensor


def circulant_attention(
    q_BNC: Tensor, k_BNC: Tensor, v_BNC: Tensor, *, hw_shape: tuple[int, int]
) -> Tensor:
    """Reference of `mmflatten.ops.circulant_attention`: one block-circulant matrix per channel,
    `(B, C, N, N)`.
    """
    H, W = hw_shape
    token = torch.arange(H * W)
    rows, cols = token // W, token % W
    offset_NM = (rows[None] - rows[:, None]) % H * W + (cols[None] - cols[:, None]) % W
    products_BCNM = torch.einsum('bnc,bmc->bcnm', q_BNC, k_BNC)
    zeros_BCo = torch.zeros_like(products_BCNM[:, :, 0])
    sums_BCo = zeros_BCo.index_add(2, offset_NM.flatten(), products_BCNM.flatten(2))
    weights_BCo = (sums_BCo / (H * W) ** 0.5).softmax(-1)
    return torch.einsum('bcnm,bmc->bnc', weights_BCo[:, :, offset_NM], v_BNC)


def manhattan_attention(
    q_BhNd: Tensor, k_BhNd: Tensor, v_BhNe: Tensor, *, decay_h: Tensor, hw_shape: tuple[int, int]
) -> Tensor:
    """Reference of `mmflatten.ops.manhattan_attention`: the product of a matrix within rows and one
    within columns.
    """
    token = torch.arange(hw_shape[0] * hw_shape[1])
    rows, cols = token // hw_shape[1], token % hw_shape[1]
    logits = q_BhNd @ k_BhNd.transpose(-2, -1) * q_BhNd.shape[-1] ** -0.5

    def within(line: Tensor, position: Tensor) -> Tensor:
        decay = decay_h[:, None, None] * (position[:, None] - position).abs()
        return (logits + decay).masked_fill(line[:, None] != line, -torch.inf).softmax(-1)

    return within(cols, rows) @ within(rows, cols) @ v_BhNe


def neighborhood_attention(
    q_BhNd: Tensor,
    k_BhNd: Tensor,
    v_BhNe: Tensor,
    *,
    hw_shape: tuple[int, int],
    kernel_size: int = 7,
    dilation: int = 1,
    bias: Tensor | None = None,
) -> Tensor:
    """Reference of `mmflatten.ops.neighborhood_attention`: all logits, masked one by one outside
    the neighbourhood.
    """
    H, W = hw_shape
    N = H * W
    logits = (q_BhNd @ k_BhNd.transpose(-2, -1) * q_BhNd.shape[-1] ** -0.5).clone()
    for n in range(N):
        for m in range(N):
            row = _neighbor_offset(n // W, m // W, H, number=kernel_size, dilation=dilation)
            col = _neighbor_offset(n % W, m % W, W, number=kernel_size, dilation=dilation)
            if row is None or col is None:
                logits[:, :, n, m] = -torch.inf
            elif bias is not None:
                logits[:, :, n, m] += bias[:, row, col]
    return logits.softmax(-1) @ v_BhNe


def _neighbor_offset(query: int, key: int, length: int, number: int, dilation: int) -> int | None:
    """Index in the table of offsets, or None if the key is not among the nearest."""
    candidates = range(query % dilation, length, dilation)
    nearest = sorted(candidates, key=lambda position: (abs(position - query), position))[:number]
    return (key - query) // dilation + number - 1 if key in nearest else None
