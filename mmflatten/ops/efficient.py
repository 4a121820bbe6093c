"""Efficient attention."""
from __future__ import annotations

from torch import Tensor

from mmflatten.ops.linear import kernel_product
from mmflatten.ops.precision import full_precision


@full_precision
def efficient_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Efficient attention, `softmax(q) softmax(k)^T v`: queries normalised over channels, keys over tokens.

    Each row of the implicit attention matrix sums to 1. A key of `-inf` is excluded. Cost: linear in `N` and `M`, see
    `kernel_product`. Source: Shen et al., Factorized (Efficient) Attention, eq. 4, with the location softmax on the
    keys only, as in the paper's text and the official code.

    Args:
        q_BhNd: queries `(B, h, N, d)`.
        k_BhMd: keys `(B, h, M, d)`.
        v_BhMe: values `(B, h, M, e)`.

    Returns:
        `(B, h, N, e)`.
    """
    return kernel_product(q_BhNd.softmax(dim=-1), k_BhMd.softmax(dim=-2), v_BhMe)
