"""SimA: attention without softmax and without denominators."""
from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from mmflatten.ops.linear import kernel_product
from mmflatten.ops.precision import full_precision


@full_precision
def sima_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Attention without softmax, `q' k'^T v`, with `q'`, `k'` of unit L1 norm along the tokens in every channel.

    Cost: linear in `N` and `M`, see `kernel_product`. Source: Koohpayegani and Pirsiavash, SimA, 2022, eq. 4.

    Args:
        q_BhNd: queries `(B, h, N, d)`.
        k_BhMd: keys `(B, h, M, d)`.
        v_BhMe: values `(B, h, M, e)`.

    Returns:
        `(B, h, N, e)`.
    """
    return kernel_product(F.normalize(q_BhNd, p=1, dim=-2), F.normalize(k_BhMd, p=1, dim=-2), v_BhMe)
