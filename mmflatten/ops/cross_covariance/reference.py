"""Explicit reference of attention between channels."""

from __future__ import annotations

import torch
from torch import Tensor


def cross_covariance_attention(
    q_BhNd: Tensor, k_BhNd: Tensor, v_BhNd: Tensor, *, temperature: float | Tensor = 1.0
) -> Tensor:
    """Reference of `mmflatten.ops.cross_covariance_attention`: every entry of the channel
    matrix.
    """
    q_BhNd = q_BhNd / q_BhNd.square().sum(-2, keepdim=True).sqrt()
    k_BhNd = k_BhNd / k_BhNd.square().sum(-2, keepdim=True).sqrt()
    logits = torch.einsum('bhni,bhnj->bhij', q_BhNd, k_BhNd) * temperature
    weights = logits.exp() / logits.exp().sum(-1, keepdim=True)
    return torch.einsum('bhij,bhnj->bhni', weights, v_BhNd)
