"""Explicit reference of focal attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def focal_attention(
    q_BhNd: Tensor,
    k_BhSd: Tensor,
    v_BhSe: Tensor,
    keys_WM: Tensor,
    *,
    bias_hnM: Tensor | None = None,
    mask: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Reference of `mmflatten.ops.focal_attention`: every query with every key, as often as it is
    listed.

    A key listed with biases `b1` and `b2` has the weight `exp(q k * scale) (exp(b1) + exp(b2))`.
    """
    h, N, d = q_BhNd.shape[1:]
    W, M = keys_WM.shape
    n = N // W
    scale = d**-0.5 if scale is None else scale
    factor_hnM = q_BhNd.new_ones(h, n, M) if bias_hnM is None else bias_hnM.exp()
    allowed_WnM = (
        torch.ones_like(keys_WM)[:, None].expand(W, n, M) if mask is None else mask.expand(W, n, M)
    )
    listed_WMS = F.one_hot(keys_WM, k_BhSd.shape[2]).to(q_BhNd.dtype)
    factor_hNS = torch.einsum(
        'hnm,wnm,wms->hwns', factor_hnM, allowed_WnM.to(q_BhNd.dtype), listed_WMS
    ).flatten(1, 2)
    logits = q_BhNd @ k_BhSd.transpose(-2, -1) * scale
    weights = (logits - logits.amax(dim=-1, keepdim=True)).exp() * factor_hNS
    return weights / weights.sum(dim=-1, keepdim=True) @ v_BhSe
