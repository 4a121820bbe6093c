"""Factorized attention and the conventional attention it replaces."""
from __future__ import annotations

from torch import Tensor

from mmflatten.ops.linear import kernel_product
from mmflatten.ops.precision import full_precision
from mmflatten.ops.softmax import softmax_attention


@full_precision
def factorized_dot_attention(c_BhNd: Tensor, b_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Dot-product attention without its `(N, M)` matrix, `c (b^T v) / d`.

    Equal to `conventional_dot_attention`, because matrix products are associative. The result is a sum over the `M`
    tokens, not a mean, so it grows with the map. Cost: linear in `N` and `M`, see `kernel_product`. Source: Shen et
    al., Factorized Attention, eq. 3; with several heads, `d` is the width of one head.

    Args:
        c_BhNd: coefficients (queries) `(B, h, N, d)`.
        b_BhMd: basis (keys) `(B, h, M, d)`.
        v_BhMe: values `(B, h, M, e)`.

    Returns:
        `(B, h, N, e)`.
    """
    return kernel_product(c_BhNd, b_BhMd, v_BhMe, 1 / c_BhNd.shape[-1])


@full_precision
def conventional_dot_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Dot-product form of the non-local module, `(q k^T / d) v`, with its `(N, M)` matrix.

    Cost: `B h N M (d + e)` multiply-accumulates. Source: Shen et al., eq. 6 (the non-local paper divides by `M`).
    Shapes as in `factorized_dot_attention`.
    """
    # Scale the queries, because scaling the matrix would store it twice.
    return (q_BhNd / q_BhNd.shape[-1]) @ k_BhMd.transpose(-2, -1) @ v_BhMe


def conventional_gaussian_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Embedded Gaussian form of the non-local module, `softmax(q k^T) v`, without a factor `d ** -0.5`.

    Its factorized counterpart is `efficient_attention`. Cost: `B h N M (d + e)` multiply-accumulates. Source: Shen et
    al., eq. 9. Shapes as in `factorized_dot_attention`.
    """
    return softmax_attention(q_BhNd, k_BhMd, v_BhMe, scale=1.)
