"""Linear attentions that normalise `q k^T v` in another way than by the sum of the scores."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.ops.linear.operator import kernel_product
from mmflatten.ops.precision import full_precision, no_autocast, upcast


@full_precision
def sima_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Attention without softmax, `q' k'^T v`, with `q'`, `k'` of unit L1 norm along the tokens in
    every channel.

    Cost: linear in `N` and `M`, see `kernel_product`. Source: Koohpayegani and Pirsiavash, SimA,
    2022, eq. 4.
    """
    q_BhNd = F.normalize(q_BhNd, p=1, dim=-2)
    k_BhMd = F.normalize(k_BhMd, p=1, dim=-2)
    return kernel_product(q_BhNd, k_BhMd, v_BhMe)


@full_precision
def hydra_attention(q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor) -> Tensor:
    """Linear attention with one head per channel, `q' * sum_m (k'_m * v_m)`, with `q'`, `k'` of
    unit length.

    Cost: `B (N + M) C` elementwise multiplications, no matrix product. Source: Bolya et al., Hydra
    Attention, 2022, eqs. 5 and 6 with the cosine kernel.
    """
    sum_B1C = (F.normalize(k_BMC, dim=-1) * v_BMC).sum(dim=-2, keepdim=True)
    return F.normalize(q_BNC, dim=-1) * sum_B1C


@full_precision
def angular_attention(
    q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor, *, own_BhNe: Tensor | None = None
) -> Tensor:
    """Linear angular attention, `y / |y|` with `y = own / 2 + q' k'^T v / pi` and `q'`, `k'` of
    unit length.

    This is the angular kernel `1 - arccos(q' . k') / pi` without its higher-order terms, which
    Castling-ViT replaces by a depthwise convolution of the values and, in training, a sparse
    softmax branch. The constant term of the kernel, 1/2, multiplies only the value at the query's
    position, as in the official code. Cost: linear in `N` and `M`, see `kernel_product`. Source:
    You et al., Castling-ViT, CVPR 2023, sec. 4.2.

    Args:
        own_BhNe: values at the positions of the queries; default: `v`, which requires `M = N`.
    """
    if own_BhNe is None:
        own_BhNe = v_BhMe
    q_BhNd = F.normalize(q_BhNd, dim=-1)
    k_BhMd = F.normalize(k_BhMd, dim=-1)
    product = kernel_product(q_BhNd, k_BhMd, v_BhMe, scale=1 / math.pi)
    return F.normalize(0.5 * own_BhNe + product, dim=-1)


@full_precision
def inline_attention(
    q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor, *, mean_v_Bh1e: Tensor | None = None
) -> Tensor:
    """Linear attention normalised by subtraction, not division,
    `s q k^T v / M + (1 - s q . mean(k)) mean(v)`.

    `s = d ** -0.5`. The weights of a query sum to 1 and may be negative. Different queries have
    different weights. No feature map is required. Cost: linear in `N` and `M`, see
    `kernel_product`. Source: Bridging the Divide (Han et al., NeurIPS 2024), eq. 6.

    Args:
        mean_v_Bh1e: mean of the values; default: the mean over all `M`.
    """
    scale = q_BhNd.shape[-1] ** -0.5
    M = k_BhMd.shape[-2]
    if mean_v_Bh1e is None:
        mean_v_Bh1e = v_BhMe.mean(dim=-2, keepdim=True)
    rest_BhN1 = 1 - q_BhNd @ k_BhMd.mean(dim=-2).unsqueeze(-1) * scale
    return kernel_product(q_BhNd, k_BhMd, v_BhMe, scale=scale / M) + rest_BhN1 * mean_v_Bh1e


@full_precision
def magnitude_aware_attention(
    q_BhNd: Tensor,
    k_BhMd: Tensor,
    v_BhMe: Tensor,
    *,
    rotated_q_BhNd: Tensor | None = None,
    rotated_k_BhMd: Tensor | None = None,
    mean_v_Bh1e: Tensor | None = None,
    eps: float = 1e-6,
) -> Tensor:
    """Linear attention that is sharper for longer queries, `(1 + 1 / t) q k^T v / (sqrt(d) M) - t
    mean(v)`.

    `t = q . mean(k) / sqrt(d)`. The weights of a query sum to 1 and may be negative. Cost: linear
    in `N` and `M`, see `kernel_product`. Source: MALA (Fan et al., ICCV 2025), eqs. 8 to 10.

    Args:
        q_BhNd: mapped queries, positive.
        k_BhMd: mapped keys, positive.
        rotated_q_BhNd: queries with rotary positions, used in `q k^T v`; `t` keeps the unrotated
            ones.
        rotated_k_BhMd: keys with rotary positions, used in `q k^T v`.
        mean_v_Bh1e: mean of the values; default: the mean over all `M`.
        eps: added to `t` in `1 / t`.
    """
    scale = q_BhNd.shape[-1] ** -0.5
    M = k_BhMd.shape[-2]
    t_BhN1 = q_BhNd @ k_BhMd.mean(dim=-2).unsqueeze(-1) * scale
    if rotated_q_BhNd is not None:
        q_BhNd = rotated_q_BhNd
    if rotated_k_BhMd is not None:
        k_BhMd = rotated_k_BhMd
    if mean_v_Bh1e is None:
        mean_v_Bh1e = v_BhMe.mean(dim=-2, keepdim=True)
    factor_BhN1 = 1 + 1 / (t_BhN1 + eps)
    product_BhNe = kernel_product(q_BhNd, k_BhMd, v_BhMe, scale=scale / M)
    return factor_BhN1 * product_BhNe - t_BhN1 * mean_v_Bh1e


def global_key_weights(q_BhNd: Tensor, k_BhMd: Tensor, mask: Tensor | None = None) -> Tensor:
    """Weights of the keys by their similarity to the mean query,
    `M softmax_M(mean(q) . k / sqrt(d))`, `(B, h, M, 1)`.

    The mean weight is 1. Multiplying the keys by the weights raises the rank of `k^T v` in linear
    attention. Cost: `M C`. Source: RALA (Fan et al., CVPR 2025), eqs. 5 and 6, with the mean over
    the mapped queries.

    Args:
        q_BhNd: mapped queries `(B, h, N, d)`, of which only the mean is used. With masked tokens,
            pass queries whose mean is that of the others.
        k_BhMd: mapped keys `(B, h, M, d)`.
        mask: boolean mask of the keys that count, broadcastable to `(B, h, M, 1)`. None: all keys.
    """
    q_BhNd, k_BhMd = upcast(q_BhNd, k_BhMd)
    with no_autocast(k_BhMd):
        logits_BhM1 = k_BhMd @ q_BhNd.mean(dim=-2).unsqueeze(-1) * q_BhNd.shape[-1] ** -0.5
        if mask is not None:
            logits_BhM1 = logits_BhM1.masked_fill(~mask, -torch.inf)
        return logits_BhM1.softmax(dim=-2) * k_BhMd.shape[-2]
