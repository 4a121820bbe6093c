"""Hydra attention."""
from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from mmflatten.ops.precision import full_precision


@full_precision
def hydra_attention(q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor) -> Tensor:
    """Linear attention with one head per channel, `q' * sum_m (k'_m * v_m)`, with `q'`, `k'` of unit length.

    Cost: `B (N + M) C` elementwise multiplications, no matrix product. Source: Bolya et al., Hydra Attention,
    2022, eqs. 5 and 6 with the cosine kernel.

    Args:
        q_BNC: queries `(B, N, C)`.
        k_BMC: keys `(B, M, C)`.
        v_BMC: values `(B, M, C)`.

    Returns:
        `(B, N, C)`.
    """
    return F.normalize(q_BNC, dim=-1) * (F.normalize(k_BMC, dim=-1) * v_BMC).sum(dim=-2, keepdim=True)
