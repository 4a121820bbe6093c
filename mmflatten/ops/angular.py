"""Linear angular attention."""
from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor

from mmflatten.ops.linear import kernel_product
from mmflatten.ops.precision import full_precision


@full_precision
def angular_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor, *, own_BhNe: Tensor | None = None) -> Tensor:
    """Linear angular attention, `y / |y|` with `y = own / 2 + q' k'^T v / pi` and `q'`, `k'` of unit length.

    This is the angular kernel `1 - arccos(q' . k') / pi` without its higher-order terms, which Castling-ViT replaces by
    a depthwise convolution of the values and, in training, a sparse softmax branch. The constant term of the kernel,
    1/2, multiplies only the value at the query's position, as in the official code. Cost: linear in `N` and `M`, see
    `kernel_product`. Source: You et al., Castling-ViT, CVPR 2023, sec. 4.2.

    Args:
        q_BhNd: queries `(B, h, N, d)`.
        k_BhMd: keys `(B, h, M, d)`.
        v_BhMe: values `(B, h, M, e)`.
        own_BhNe: values at the positions of the queries, `(B, h, N, e)`; default: `v`, which requires `M = N`.

    Returns:
        `(B, h, N, e)`, of unit length.
    """
    own_BhNe = v_BhMe if own_BhNe is None else own_BhNe
    product = kernel_product(F.normalize(q_BhNd, dim=-1), F.normalize(k_BhMd, dim=-1), v_BhMe, 1 / math.pi)
    return F.normalize(0.5 * own_BhNe + product, dim=-1)
