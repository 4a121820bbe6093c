"""Explicit twins of `mmflatten.ops.factorized`: every entry of the attention matrix by its formula."""
from __future__ import annotations

import torch
from torch import Tensor


def dot_attention_matrix(q_BhNd: Tensor, k_BhMd: Tensor) -> Tensor:
    """Attention matrix of the two dot-product forms, `(B, h, N, M)`."""
    return torch.einsum('bhnd,bhmd->bhnm', q_BhNd, k_BhMd) / q_BhNd.shape[-1]


def factorized_dot_attention(c_BhNd: Tensor, b_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Twin of `mmflatten.ops.factorized_dot_attention`."""
    return torch.einsum('bhnm,bhme->bhne', dot_attention_matrix(c_BhNd, b_BhMd), v_BhMe)


def conventional_dot_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Twin of `mmflatten.ops.conventional_dot_attention`."""
    return factorized_dot_attention(q_BhNd, k_BhMd, v_BhMe)


def conventional_gaussian_matrix(q_BhNd: Tensor, k_BhMd: Tensor) -> Tensor:
    """Attention matrix of `mmflatten.ops.conventional_gaussian_attention`, `(B, h, N, M)`."""
    logits = torch.einsum('bhnd,bhmd->bhnm', q_BhNd, k_BhMd)
    weights = (logits - logits.amax(-1, keepdim=True)).exp()
    return weights / weights.sum(-1, keepdim=True)


def conventional_gaussian_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Twin of `mmflatten.ops.conventional_gaussian_attention`."""
    return torch.einsum('bhnm,bhme->bhne', conventional_gaussian_matrix(q_BhNd, k_BhMd), v_BhMe)
