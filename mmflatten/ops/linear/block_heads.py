"""Token-level multi-head linear attention (MHLA)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from mmflatten.ops.precision import full_precision
from mmflatten.ops.sizes import ceil_div


@full_precision
def block_linear_attention(
    q_BhNd: Tensor,
    k_BhMd: Tensor,
    v_BhMe: Tensor,
    *,
    mixing_bb: Tensor,
    hw_shape: tuple[int, int],
    kv_shape: tuple[int, int],
    eps: float = 1e-6,
    own_sum: bool = True,
) -> Tensor:
    """Linear attention with mixed sums over blocks of keys, `q S_i / (q . z_i + eps)` for queries
    in block `i`.

    `S_i = sum_b W_ib S_b` and `z_i = sum_b W_ib z_b` mix the sums `S_b = k^T v` and `z_b = sum k`
    over block `b`, both divided by `M`. The blocks form a square grid on a map of any size. Prefix
    tokens lie in no block: as keys they have weight 1 for all queries, and as queries they give all
    blocks the weight 1. Cost: `(N + M) C d + b^2 C d` for `b` blocks. Source: MHLA (ICLR 2026), eq.
    4.

    Args:
        q_BhNd: mapped queries `(B, h, N, d)`; `N` is `H W` plus the number of prefix tokens.
        k_BhMd: mapped keys `(B, h, M, d)`.
        mixing_bb: `W`, `(b, b)` with a square number `b`.
        hw_shape: `(H, W)` of the queries' map.
        kv_shape: `(H, W)` of the keys' map.
        eps: added to the denominator.
        own_sum: False divides as the released code does, which computes `q_b . z_b` in each block
            before it mixes: the query at place `p` of block `i` is divided by
            `sum_b W_ib q_bp . z_b + eps`, with the queries at place `p` of all blocks.
    """
    side = round(int(mixing_bb.shape[0]) ** 0.5)
    M = k_BhMd.shape[-2]
    prefix = q_BhNd.shape[-2] - hw_shape[0] * hw_shape[1]
    prefix_keys = M - kv_shape[0] * kv_shape[1]

    # Sums of each block and of the prefix tokens. A column of ones accumulates z.
    v_BhMe = torch.cat((v_BhMe, torch.ones_like(v_BhMe[..., :1])), dim=-1)
    k_BhbMd = _blocks(k_BhMd[:, :, prefix_keys:], kv_shape, side)
    v_BhbMe = _blocks(v_BhMe[:, :, prefix_keys:], kv_shape, side)
    sums_Bhbde = k_BhbMd.transpose(-2, -1) @ v_BhbMe / M
    prefix_Bhde = k_BhMd[:, :, :prefix_keys].transpose(-2, -1) @ v_BhMe[:, :, :prefix_keys] / M

    # Numerators and, in the last column, denominators.
    mixed_Bhbde = torch.einsum('ij,BhjdE->BhidE', mixing_bb, sums_Bhbde) + prefix_Bhde[:, :, None]
    q_BhbNd = _blocks(q_BhNd[:, :, prefix:], hw_shape, side)
    y_BhbNe = q_BhbNd @ mixed_Bhbde
    if not own_sum:
        sums_BhbN = (q_BhbNd @ sums_Bhbde[..., -1:]).squeeze(-1)
        mixed_BhbN = torch.einsum('ij,BhjN->BhiN', mixing_bb, sums_BhbN)
        total_BhbN1 = mixed_BhbN.unsqueeze(-1) + q_BhbNd @ prefix_Bhde[:, :, None, :, -1:]
        y_BhbNe = torch.cat((y_BhbNe[..., :-1], total_BhbN1), dim=-1)

    y_BhNe = _unblocks(y_BhbNe, hw_shape, side)
    if prefix:
        all_Bhde = sums_Bhbde.sum(dim=2) + prefix_Bhde
        y_BhNe = torch.cat((q_BhNd[:, :, :prefix] @ all_Bhde, y_BhNe), dim=2)
    return y_BhNe[..., :-1] / (y_BhNe[..., -1:] + eps)


def _blocks(x_BhNd: Tensor, hw_shape: tuple[int, int], side: int) -> Tensor:
    """Split a map into blocks, `(B, h, N, d) -> (B, h, side^2, N', d)`, zero-padded."""
    H, W = hw_shape
    height, width = (ceil_div(length, side) * side for length in hw_shape)
    x = F.pad(x_BhNd.unflatten(2, (H, W)), (0, 0, 0, width - W, 0, height - H))
    return rearrange(x, 'B h (Y y) (X x) d -> B h (Y X) (y x) d', Y=side, X=side)


def _unblocks(x_BhbNd: Tensor, hw_shape: tuple[int, int], side: int) -> Tensor:
    """Inverse of `_blocks`."""
    height = ceil_div(hw_shape[0], side)
    x = rearrange(x_BhbNd, 'B h (Y X) (y x) d -> B h (Y y) (X x) d', Y=side, y=height)
    return x[:, :, : hw_shape[0], : hw_shape[1]].flatten(2, 3)
