"""Feature maps that make the scores of linear attention positive."""
from __future__ import annotations

import torch
from torch import Tensor


def _power(x: Tensor, exponent: float) -> Tensor:
    """`(c x) ** exponent` for a positive `c` per token that keeps high powers inside the range of float32."""
    if exponent > 3:
        x = x / x.amax(dim=-1, keepdim=True)
    return x.pow(exponent)


def focused_map(x: Tensor, focusing_factor: float) -> Tensor:
    """`f_p(x) = ||x|| / ||x ** p|| * x ** p`: keeps the norm of a token and sharpens its direction.

    Source: FLatten Transformer, eq. 6 and Proposition 1. The norm runs over the last axis, which in the official code
    holds all the heads together.

    Args:
        x: positive tokens `(..., C)`.
        focusing_factor: the power `p`; 1 changes nothing.

    Returns:
        `(..., C)`.
    """
    powered = _power(x, focusing_factor)
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return powered * (norm / torch.linalg.vector_norm(powered, dim=-1, keepdim=True))
