"""Feature maps that make the scores of linear attention positive, and their parts."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def _power(x: Tensor, exponent: float) -> Tensor:
    """`(c x) ** exponent` for a positive `c` per token that keeps high powers inside the range of float32."""
    if exponent > 3:
        x = x / x.amax(dim=-1, keepdim=True)
    return x.pow(exponent)


def signed_parts(x: Tensor) -> Tensor:
    """Positive and negative part side by side, `(..., d) -> (..., 2 d)`."""
    return torch.cat((F.relu(x), F.relu(-x)), dim=-1)


def positive_power(x: Tensor, exponent: Tensor) -> Tensor:
    """`x ** exponent` of numbers that are not negative, with finite gradients of both at 0."""
    positive = x > 0
    return torch.where(positive, torch.where(positive, x, 1.).log().mul(exponent).exp(), 0.)


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
