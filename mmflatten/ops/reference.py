"""The explicit O(N^2) twin of every operator, for tests and analysis.

Each function forms the whole attention matrix, `(B, h, N, M)`, by the textbook formula.
"""
from __future__ import annotations

import torch
from torch import Tensor


def softmax_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor, *, bias: Tensor | None = None,
                      scale: float | None = None) -> Tensor:
    """Twin of `mmflatten.ops.softmax_attention`."""
    scale = q_BhNd.shape[-1] ** -0.5 if scale is None else scale
    logits = q_BhNd @ k_BhMd.transpose(-2, -1) * scale
    if bias is not None:
        logits = logits + bias
    return logits.softmax(dim=-1) @ v_BhMe


def kernel_product(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor, scale: float | Tensor = 1.) -> Tensor:
    """Twin of `mmflatten.ops.kernel_product`."""
    return scale * torch.einsum('bhnd,bhmd,bhme->bhne', q_BhNd, k_BhMd, v_BhMe)


def linear_attention_matrix(q_BhNd: Tensor, k_BhMd: Tensor, *, eps: float | Tensor = 1e-6,
                            min_denominator: float | None = None) -> Tensor:
    """The implicit attention matrix of `mmflatten.ops.linear_attention`, `(B, h, N, M)`."""
    scores = q_BhNd @ k_BhMd.transpose(-2, -1)
    total = scores.sum(dim=-1, keepdim=True)
    if min_denominator is not None:
        return scores / total.clamp(min=min_denominator)
    return scores / (total + eps * k_BhMd.shape[-2])


def linear_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor, *, eps: float | Tensor = 1e-6,
                     min_denominator: float | None = None, scale: float | Tensor = 1.,
                     local_BhNe: Tensor | None = None) -> Tensor:
    """Twin of `mmflatten.ops.linear_attention`."""
    out_BhNe = scale * linear_attention_matrix(q_BhNd, k_BhMd, eps=eps, min_denominator=min_denominator) @ v_BhMe
    return out_BhNe if local_BhNe is None else out_BhNe + local_BhNe


def focused_map(x: Tensor, focusing_factor: float) -> Tensor:
    """Twin of `mmflatten.ops.focused_map`."""
    powered = x ** focusing_factor
    return powered / powered.square().sum(-1, keepdim=True).sqrt() * x.square().sum(-1, keepdim=True).sqrt()
