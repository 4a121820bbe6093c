"""Explicit references of efficient attention and of the dot-product forms."""

from __future__ import annotations

import torch
from torch import Tensor


def efficient_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Reference of `mmflatten.ops.efficient_attention`."""
    return efficient_attention_matrix(q_BhNd, k_BhMd) @ v_BhMe


def efficient_attention_matrix(q_BhNd: Tensor, k_BhMd: Tensor) -> Tensor:
    """The implicit attention matrix of `mmflatten.ops.efficient_attention`, `(B, h, N, M)`."""
    return q_BhNd.softmax(-1) @ k_BhMd.softmax(-2).transpose(-2, -1)


def factorized_dot_attention(c_BhNd: Tensor, b_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Reference of `mmflatten.ops.factorized_dot_attention`, and of
    `conventional_dot_attention`.
    """
    return torch.einsum('bhnm,bhme->bhne', dot_attention_matrix(c_BhNd, b_BhMd), v_BhMe)


conventional_dot_attention = factorized_dot_attention


def dot_attention_matrix(q_BhNd: Tensor, k_BhMd: Tensor) -> Tensor:
    """Attention matrix of the two dot-product forms, `(B, h, N, M)`."""
    return torch.einsum('bhnd,bhmd->bhnm', q_BhNd, k_BhMd) / q_BhNd.shape[-1]


def conventional_gaussian_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Reference of `mmflatten.ops.conventional_gaussian_attention`."""
    return torch.einsum('bhnm,bhme->bhne', conventional_gaussian_matrix(q_BhNd, k_BhMd), v_BhMe)


def conventional_gaussian_matrix(q_BhNd: Tensor, k_BhMd: Tensor) -> Tensor:
    """Attention matrix of `mmflatten.ops.conventional_gaussian_attention`, `(B, h, N, M)`."""
    logits = torch.einsum('bhnd,bhmd->bhnm', q_BhNd, k_BhMd)
    weights = (logits - logits.amax(-1, keepdim=True)).exp()
    return weights / weights.sum(-1, keepdim=True)
