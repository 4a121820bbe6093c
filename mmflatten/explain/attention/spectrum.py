"""How much an attention tells tokens apart: the rank of its matrix, and how evenly its rows spread their weight."""
from __future__ import annotations

import torch
from torch import Tensor

from mmflatten.explain.attention.layer import AttentionLayer
from mmflatten.explain.attention.statistics import CHUNK, spread

THRESHOLD = 0.01


def singular_values(layer: AttentionLayer, part: str = 'attention') -> Tensor:
    """Singular values of the `(N, M)` matrix of each head, the largest first.

    Prefix tokens are rows and columns like others. The matrix of a layer in windows has a block for each window.

    Args:
        layer: whose whole matrix is taken.
        part: as in `AttentionLayer.rows`; 'both' is the matrix with the depthwise convolutions of the values
            (FLatten Transformer, eq. 11).

    Returns:
        `(h, min(N, M))` in float64, on the CPU.

    Raises:
        ValueError: as in `AttentionLayer.matrix`.
    """
    return torch.linalg.svdvals(layer.matrix(part=part).cpu().double())


def rank(values: Tensor, threshold: float = THRESHOLD) -> Tensor:
    """How many singular values `(h, n)` exceed `threshold` times the largest of their head, `(h,)`."""
    return (values > threshold * values[:, :1]).sum(-1)


def effective_rank(values: Tensor) -> Tensor:
    """Exponential of the entropy of singular values `(h, n)` divided by their sum, `(h,)`.

    `n` for equal values, 1 if one alone is not zero. Source: Roy and Vetterli, 2007, The effective rank.
    """
    return torch.special.entr(shares(values)).sum(-1).exp()


def entropy(layer: AttentionLayer, number: int = 64) -> Tensor:
    """Mean entropy of a query's weights in nats, `(h,)`: 0 if it attends one key, `ln M` if all `M` keys alike.

    The sizes of the weights count, divided by their sum; a query that attends nothing counts as 0. The mean is over
    `number` queries spread evenly over the map.
    """
    return torch.cat([torch.special.entr(shares(layer.rows(chunk.tolist()).cpu().double())).sum(-1)
                      for chunk in spread(layer, number).split(CHUNK)]).mean(0)


def shares(x: Tensor) -> Tensor:
    """Sizes along the last dimension, divided by their sum; zeros stay zeros."""
    sizes = x.abs()
    return sizes / sizes.sum(-1, keepdim=True).clamp(min=torch.finfo(sizes.dtype).tiny)
