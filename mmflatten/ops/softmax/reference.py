"""Explicit references of softmax attention and its approximations."""

from __future__ import annotations

import torch
from torch import Tensor


def softmax_attention(
    q_BhNd: Tensor,
    k_BhMd: Tensor,
    v_BhMe: Tensor,
    *,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Reference of `mmflatten.ops.softmax_attention`."""
    scale = q_BhNd.shape[-1] ** -0.5 if scale is None else scale
    logits = q_BhNd @ k_BhMd.transpose(-2, -1) * scale
    if bias is not None:
        logits = logits + bias
    return logits.softmax(dim=-1) @ v_BhMe


def agent_attention(
    q_BhNd: Tensor,
    k_BhMd: Tensor,
    v_BhMe: Tensor,
    agents_Bhad: Tensor,
    *,
    key_bias: Tensor | float | None = None,
    query_bias: Tensor | float | None = None,
) -> Tensor:
    """Reference of `mmflatten.ops.agent_attention`: the product of two attention matrices,
    `(B, h, N, M)`.
    """
    key_bias, query_bias = (0.0 if bias is None else bias for bias in (key_bias, query_bias))
    scale = q_BhNd.shape[-1] ** -0.5
    left = (q_BhNd @ agents_Bhad.transpose(-2, -1) * scale + query_bias).softmax(-1)
    right = (agents_Bhad @ k_BhMd.transpose(-2, -1) * scale + key_bias).softmax(-1)
    return (left @ right) @ v_BhMe


def nystrom_attention(
    q_BhNd: Tensor,
    k_BhMd: Tensor,
    v_BhMe: Tensor,
    *,
    q_landmarks_Bhad: Tensor,
    k_landmarks_Bhad: Tensor,
    bias: Tensor | float | None = None,
    iterations: int = 6,
) -> Tensor:
    """Reference of `mmflatten.ops.nystrom_attention`: the product of three matrices,
    `(B, h, N, M)`.
    """
    scale = q_BhNd.shape[-1] ** -0.5
    left = (scale * torch.einsum('bhnd,bhad->bhna', q_BhNd, k_landmarks_Bhad)).softmax(-1)
    middle = (scale * torch.einsum('bhad,bhcd->bhac', q_landmarks_Bhad, k_landmarks_Bhad)).softmax(
        -1
    )
    logits = scale * torch.einsum('bhad,bhmd->bham', q_landmarks_Bhad, k_BhMd)
    right = (logits if bias is None else logits + bias).softmax(-1)
    inverse = (
        middle.transpose(-2, -1)
        / (middle.sum(-2).amax(-1) * middle.sum(-1).amax(-1))[..., None, None]
    )
    for _ in range(iterations):
        az = middle @ inverse
        inverse = (
            13 * inverse - 15 * inverse @ az + 7 * inverse @ az @ az - inverse @ az @ az @ az
        ) / 4
    return (left @ inverse @ right) @ v_BhMe
