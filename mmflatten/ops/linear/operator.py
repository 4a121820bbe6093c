"""Linear attention: the kernel trick on positive feature maps."""

from __future__ import annotations

import torch
from torch import Tensor

from mmflatten.ops.precision import full_precision
from mmflatten.ops.sizes import certain


def kernel_product(
    q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor, scale: float | Tensor = 1.0
) -> Tensor:
    """Compute `scale q k^T v` by the cheaper association, `q (k^T v)` or `(q k^T) v`.

    Cost: `B h min((N + M) d e, N M (d + e))` multiply-accumulates. Shapes as in `linear_attention`;
    `scale` is a number or a tensor broadcastable to `(B, h, 1, 1)`.
    """
    N, d = q_BhNd.shape[-2:]
    M, e = v_BhMe.shape[-2:]
    if certain((N + M) * d * e > N * M * (d + e)):
        return (q_BhNd @ k_BhMd.transpose(-2, -1) * scale) @ v_BhMe
    return q_BhNd @ (k_BhMd.transpose(-2, -1) @ v_BhMe * scale)


@full_precision
def linear_attention(
    q_BhNd: Tensor,
    k_BhMd: Tensor,
    v_BhMe: Tensor,
    *,
    eps: float | Tensor = 1e-6,
    min_denominator: float | None = None,
    scale: float | Tensor = 1.0,
    local_BhNe: Tensor | None = None,
    rotated_q_BhNd: Tensor | None = None,
    rotated_k_BhMd: Tensor | None = None,
) -> Tensor:
    """Normalised linear attention, `scale q (k^T v) / (q . mean(k) + eps)` with `k^T v` averaged
    over the M keys.

    `q` and `k` are already feature-mapped and should be non-negative. Half-precision inputs are
    summed in float32. Sums are divided by `M`, which keeps them in the range of the inputs and
    makes the result independent of the resolution.
    Cost: linear in `N` and `M`, see `kernel_product`. Source: Katharopoulos et al., 2020, eq. 5.

    Args:
        q_BhNd: mapped queries `(B, h, N, d)`.
        k_BhMd: mapped keys `(B, h, M, d)`.
        v_BhMe: values `(B, h, M, e)`.
        eps: added to the denominator; a number, or a tensor broadcastable to `(B, h, N, 1)`.
        min_denominator: lower bound of the *summed* denominator `q . sum(k)`, instead of `eps`
            (L2ViT, sec. 8).
        scale: factor of `k^T v`; a number, or a tensor broadcastable to `(B, h, 1, 1)` (L2ViT's
            temperature).
        local_BhNe: a local term `(B, h, N, e)`, added along with the division; the result takes its
            memory layout.
        rotated_q_BhNd: queries with rotary positions, used in the numerator. The denominator keeps
            the unrotated ones, whose products are positive. Requires `rotated_k_BhMd`.
        rotated_k_BhMd: keys with rotary positions, used in the numerator.

    Returns:
        `(B, h, N, e)` in the type of `v`.
    """
    M = k_BhMd.shape[-2]
    if certain(q_BhNd.shape[0] > 1):
        # The heads of a token stand beside each other in memory, and each batched product below
        # would copy them into the order that it needs. The queries are in two products.
        q_BhNd, k_BhMd = q_BhNd.contiguous(), k_BhMd.contiguous()
    denominator = q_BhNd @ k_BhMd.mean(dim=-2).unsqueeze(-1)
    if min_denominator is None:
        denominator = denominator + eps
    else:
        denominator = denominator.clamp(min=min_denominator / M)
    if (rotated_q_BhNd is None) != (rotated_k_BhMd is None):
        raise ValueError('rotated_q_BhNd, rotated_k_BhMd: expected both or none, got one of them.')
    if rotated_q_BhNd is not None and rotated_k_BhMd is not None:
        q_BhNd, k_BhMd = rotated_q_BhNd, rotated_k_BhMd
    numerator = kernel_product(q_BhNd, k_BhMd, v_BhMe, scale / M)
    if local_BhNe is None:
        return numerator / denominator
    return torch.addcdiv(local_BhNe, numerator, denominator)
