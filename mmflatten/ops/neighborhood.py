"""Neighbourhood attention."""
from __future__ import annotations

import torch
from torch import Tensor

from mmflatten.ops.precision import full_precision


def nearest(length: int, number: int, dilation: int, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """The neighbours of every position on an axis, `(length, number)`, and which of them exist.

    They lie `dilation` apart around the position, and are moved inwards at the ends, so that their number stays the
    same. An axis too short for them has fewer.
    """
    place = torch.arange(length, device=device)
    rest, index = place % dilation, place // dilation
    available = (length - rest + dilation - 1) // dilation
    first = torch.minimum(index - number // 2, available - number).clamp(min=0)
    steps = first[:, None] + torch.arange(number, device=device)
    exists = steps < available[:, None]
    return torch.where(exists, rest[:, None] + dilation * steps, 0), exists


@full_precision
def neighborhood_attention(q_BhNd: Tensor, k_BhNd: Tensor, v_BhNe: Tensor, *, hw_shape: tuple[int, int],
                           kernel_size: int = 7, dilation: int = 1, bias: Tensor | None = None) -> Tensor:
    """Softmax attention to the `k x k` nearest tokens of the map, moved inwards at its borders.

    Cost: `2 N k^2 C` multiply-accumulates; the neighbours' keys and values are gathered, `k^2` times their memory.
    Source: Neighborhood Attention Transformer (CVPR 2023); with a dilation, Dilated NAT (2022).

    Args:
        q_BhNd: queries `(B, h, N, d)` of a map, row after row; logits are divided by `sqrt(d)`.
        k_BhNd: keys of the same map.
        v_BhNe: their values.
        hw_shape: `(H, W)` with `H W = N`.
        kernel_size: `k`.
        dilation: distance of the neighbours.
        bias: for each head and offset in tokens of the dilated map, `(h, 2 k - 1, 2 k - 1)`; None for none.

    Returns:
        `(B, h, N, e)` in the type of `v`.
    """
    (H, W), device = hw_shape, q_BhNd.device
    (rows, rows_there), (cols, cols_there) = (nearest(side, kernel_size, dilation, device) for side in hw_shape)
    keys_NK = (rows[:, None, :, None] * W + cols[None, :, None]).reshape(H * W, -1)
    there_NK = (rows_there[:, None, :, None] & cols_there[None, :, None]).reshape(H * W, -1)
    gathered = k_BhNd[:, :, keys_NK]
    logits_BhNK = (gathered @ (q_BhNd * q_BhNd.shape[-1] ** -.5).unsqueeze(-1)).squeeze(-1)
    if bias is not None:
        offset_rows, offset_cols = ((steps - torch.arange(side, device=device)[:, None]) // dilation + kernel_size - 1
                                    for steps, side in ((rows, H), (cols, W)))
        offset_rows, offset_cols = (x.clamp(0, 2 * kernel_size - 2) for x in (offset_rows, offset_cols))
        table = bias[:, offset_rows[:, None, :, None], offset_cols[None, :, None]]
        logits_BhNK = logits_BhNK + table.reshape(bias.shape[0], H * W, -1)
    weights_BhNK = logits_BhNK.masked_fill(~there_NK, -torch.inf).softmax(-1)
    return (weights_BhNK.unsqueeze(-2) @ v_BhNe[:, :, keys_NK]).squeeze(-2)
