"""Attention between channels (XCA)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from mmflatten.ops.precision import full_precision


@full_precision
def cross_covariance_attention(
    q_BhNd: Tensor, k_BhNd: Tensor, v_BhNd: Tensor, *, temperature: float | Tensor = 1.0
) -> Tensor:
    """Attention between channels, `v softmax(temperature k'^T q')`, with `q'`, `k'` of unit length
    along the tokens.

    Cost: `2 B h N d^2` multiply-accumulates. Source: Ali et al., XCiT, 2021, eq. 2.

    Args:
        temperature: factor of the logits; a number, or a tensor broadcastable to `(B, h, 1, 1)`.
    """
    # Rows are query channels (channels of the result); the softmax runs over key channels, as in
    # the official code.
    logits = (
        F.normalize(q_BhNd, dim=-2).transpose(-2, -1) @ F.normalize(k_BhNd, dim=-2) * temperature
    )
    return v_BhNd @ logits.softmax(dim=-1).transpose(-2, -1)
