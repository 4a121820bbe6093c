"""Manhattan attention of RMT, decomposed into rows and columns."""
from __future__ import annotations

import torch
from torch import Tensor

from mmflatten.ops.precision import full_precision


@full_precision
def manhattan_attention(q_BhNd: Tensor, k_BhNd: Tensor, v_BhNe: Tensor, *, decay_h: Tensor,
                        hw_shape: tuple[int, int]) -> Tensor:
    """Softmax attention along the rows, then the columns, with logits that decrease with the distance.

    `softmax(q k^T / sqrt(d) + ln(gamma) |distance|)` within each row of the map mixes the values, then the same within
    each column mixes the result. Cost: `N (H + W) (d + e)` per head. Source: RMT (Fan et al., CVPR 2024), eqs. 8 and 9.

    Args:
        q_BhNd: queries `(B, h, N, d)` of a map in row-major order.
        k_BhNd: keys of the same map.
        v_BhNe: their values `(B, h, N, e)`.
        decay_h: `ln(gamma)` of each head, `(h,)`.
        hw_shape: `(H, W)` with `H W = N`.

    Returns:
        `(B, h, N, e)` in the type of `v`.
    """
    q_BhHWd, k_BhHWd, v_BhHWe = (x.unflatten(2, hw_shape) for x in (q_BhNd * q_BhNd.shape[-1] ** -.5, k_BhNd, v_BhNe))
    y_BhHWe = _row_attention(q_BhHWd, k_BhHWd, v_BhHWe, decay_h)
    q_BhWHd, k_BhWHd, y_BhWHe = (x.transpose(2, 3) for x in (q_BhHWd, k_BhHWd, y_BhHWe))
    return _row_attention(q_BhWHd, k_BhWHd, y_BhWHe, decay_h).transpose(2, 3).flatten(2, 3)


def _row_attention(q_BhYXd: Tensor, k_BhYXd: Tensor, v_BhYXe: Tensor, decay_h: Tensor) -> Tensor:
    column = torch.arange(q_BhYXd.shape[3], device=q_BhYXd.device)
    distance_XX = (column[:, None] - column).abs()
    logits = q_BhYXd @ k_BhYXd.transpose(-2, -1) + decay_h[:, None, None, None] * distance_XX
    return logits.softmax(-1) @ v_BhYXe
