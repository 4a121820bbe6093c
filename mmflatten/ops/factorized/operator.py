"""Factorized (efficient) attention, and the conventional forms of the non-local module."""

from __future__ import annotations

from torch import Tensor

from mmflatten.ops.linear.operator import kernel_product
from mmflatten.ops.precision import full_precision
from mmflatten.ops.softmax.operator import softmax_attention


@full_precision
def efficient_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Efficient attention, `softmax(q) softmax(k)^T v`: queries normalised over channels, keys over
    tokens.

    Each row of the implicit attention matrix sums to 1. A key of `-inf` is excluded. Cost: linear
    in `N` and `M`, see `kernel_product`. Source: Shen et al., Factorized (Efficient) Attention, eq.
    4, with the location softmax on the keys only, as in the paper's text and the official code.
    """
    return kernel_product(q_BhNd.softmax(dim=-1), k_BhMd.softmax(dim=-2), v_BhMe)


@full_precision
def factorized_dot_attention(c_BhNd: Tensor, b_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Dot-product attention without its `(N, M)` matrix, `c (b^T v) / d`.

    Equal to `conventional_dot_attention`, because matrix products are associative. The result is a
    sum over the `M` tokens, not a mean, so it grows with the map. Cost: linear in `N` and `M`, see
    `kernel_product`. Source: Shen et al., Factorized Attention, eq. 3; with several heads, `d` is
    the width of one head.
    """
    return kernel_product(c_BhNd, b_BhMd, v_BhMe, 1 / c_BhNd.shape[-1])


@full_precision
def conventional_dot_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Dot-product form of the non-local module, `(q k^T / d) v`, with its `(N, M)` matrix.

    Cost: `B h N M (d + e)` multiply-accumulates. Source: Shen et al., eq. 6 (the non-local paper
    divides by `M`).
    """
    # Scale the queries, because scaling the matrix would store it twice.
    return (q_BhNd / q_BhNd.shape[-1]) @ k_BhMd.transpose(-2, -1) @ v_BhMe


def conventional_gaussian_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Embedded Gaussian form of the non-local module, `softmax(q k^T) v`, without a factor
    `d ** -0.5`.

    Its factorized counterpart is `efficient_attention`. Cost: `B h N M (d + e)`
    multiply-accumulates. Source: Shen et al., eq. 9.
    """
    return softmax_attention(q_BhNd, k_BhMd, v_BhMe, scale=1.0)
