"""Rank-augmented linear attention."""
from __future__ import annotations

import torch
from torch import Tensor

from mmflatten.ops.precision import no_autocast, upcast


def global_key_weights(q_BhNd: Tensor, k_BhMd: Tensor, mask: Tensor | None = None) -> Tensor:
    """Weights of the keys by their similarity to the mean query, `M softmax_M(mean(q) . k / sqrt(d))`, `(B, h, M, 1)`.

    The mean weight is 1. Multiplying the keys by the weights raises the rank of `k^T v` in linear attention. Cost:
    `M C`. Source: RALA (Fan et al., CVPR 2025), eqs. 5 and 6, with the mean over the mapped queries.

    Args:
        q_BhNd: mapped queries `(B, h, N, d)`, of which only the mean is used. With masked tokens, pass queries whose
            mean is that of the others.
        k_BhMd: mapped keys `(B, h, M, d)`.
        mask: boolean mask of the keys that count, broadcastable to `(B, h, M, 1)`. None: all keys.
    """
    q_BhNd, k_BhMd = upcast(q_BhNd, k_BhMd)
    with no_autocast(k_BhMd):
        logits_BhM1 = k_BhMd @ q_BhNd.mean(dim=-2).unsqueeze(-1) * q_BhNd.shape[-1] ** -.5
        if mask is not None:
            logits_BhM1 = logits_BhM1.masked_fill(~mask, -torch.inf)
        return logits_BhM1.softmax(dim=-2) * k_BhMd.shape[-2]
