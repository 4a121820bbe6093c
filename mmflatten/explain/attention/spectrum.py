"""Rank of attention matrices, and entropy of their rows."""
from __future__ import annotations

import torch
from torch import Tensor

from mmflatten.explain.attention.layer import AttentionLayer
from mmflatten.explain.attention.statistics import CHUNK, spread

THRESHOLD = 0.01


def singular_values(layer: AttentionLayer, part: str = 'attention') -> Tensor:
    """Compute the singular values of the `(N, M)` matrix of each head, in descending order.

    Prefix tokens are included. The matrix of a layer in windows has one block per window.

    Args:
        layer: the layer.
        part: as in `AttentionLayer.rows`; 'both' is the matrix with the depthwise convolutions of the values
            (FLatten Transformer, eq. 11).

    Returns:
        `(h, min(N, M))` in float64, on the CPU.

    Raises:
        ValueError: as in `AttentionLayer.matrix`.
    """
    return torch.linalg.svdvals(layer.matrix(part=part).cpu().double())


def rank(values: Tensor, threshold: float = THRESHOLD) -> Tensor:
    """Count the singular values `(h, n)` above `threshold` times the largest of their head, `(h,)`."""
    return (values > threshold * values[:, :1]).sum(-1)


def effective_rank(values: Tensor) -> Tensor:
    """Compute the exponential of the entropy of normalised singular values `(h, n)`, `(h,)`.

    It is `n` for equal values, and 1 for a single nonzero value. Source: Roy and Vetterli, 2007, The effective rank.
    """
    return torch.special.entr(normalised(values)).sum(-1).exp()


def entropy(layer: AttentionLayer, number: int = 64) -> Tensor:
    """Compute the mean entropy of the weights of a query in nats, `(h,)`.

    It is 0 for a single key and `ln M` for equal weights of all `M` keys. Absolute weights are normalised to sum 1. A
    query without weights counts as 0. The mean is over `number` evenly spaced queries of the map.
    """
    return torch.cat([torch.special.entr(normalised(layer.rows(chunk.tolist()).cpu().double())).sum(-1)
                      for chunk in spread(layer, number).split(CHUNK)]).mean(0)


def normalised(x: Tensor) -> Tensor:
    """Normalise absolute values to sum 1 along the last dimension. Zeros remain zeros."""
    magnitudes = x.abs()
    return magnitudes / magnitudes.sum(-1, keepdim=True).clamp(min=torch.finfo(magnitudes.dtype).tiny)
