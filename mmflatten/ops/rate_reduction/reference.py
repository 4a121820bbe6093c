"""Explicit references of attentions derived from a rate of compression."""

from __future__ import annotations

import torch
from torch import Tensor


def contract_and_broadcast_attention(
    q_Bhad: Tensor,
    k_BhNd: Tensor,
    v_BhNe: Tensor,
    *,
    pooled_Bhae: Tensor,
    contraction: float | Tensor = 1.0,
    bias: Tensor | float = 0.0,
) -> Tensor:
    """Reference of `mmflatten.ops.contract_and_broadcast_attention`: a matrix of token pairs
    `(B, h, N, N)` for the values, and one for the representatives.
    """
    scale = q_Bhad.shape[-1] ** -0.5
    gather_BhaN = (scale * torch.einsum('bhad,bhnd->bhan', q_Bhad, k_BhNd) + bias).softmax(-1)
    moved_Bhad = q_Bhad + contraction * torch.einsum('bhan,bhnd->bhad', gather_BhaN, k_BhNd)
    mixing_Bhac = (scale * torch.einsum('bhad,bhcd->bhac', moved_Bhad, moved_Bhad)).softmax(-1)
    from_representatives_BhNa = torch.einsum('bhan,bhac->bhnc', gather_BhaN, mixing_Bhac)
    matrix_BhNN = contraction * from_representatives_BhNa @ gather_BhaN
    return matrix_BhNN @ v_BhNe + from_representatives_BhNa @ pooled_Bhae


def token_statistics_attention(
    w_BhNd: Tensor,
    v_BhNd: Tensor,
    *,
    temperature_h1: Tensor,
    eps: float = 1e-8,
) -> Tensor:
    """Reference of `mmflatten.ops.token_statistics_attention`, one head after the other:
    `-D v diag(p)` with a diagonal matrix `D` of the channels, as in the paper.
    """
    length_Bh1d = w_BhNd.square().sum(-2, keepdim=True).sqrt()
    energy_BhN = ((w_BhNd / length_Bh1d) ** 2).sum(-1)
    exponentials_BhN = (energy_BhN * temperature_h1).exp()
    membership_BhN = exponentials_BhN / exponentials_BhN.sum(1, keepdim=True)
    heads = []
    for head in range(w_BhNd.shape[1]):
        p_BN = membership_BhN[:, head]
        weighted_Bdd = w_BhNd[:, head].mT @ torch.diag_embed(p_BN) @ w_BhNd[:, head]
        moment_Bd = weighted_Bdd.diagonal(dim1=-2, dim2=-1) / (p_BN.sum(-1, keepdim=True) + eps)
        shrink_Bdd = torch.diag_embed(1 / (1 + moment_Bd))
        heads.append(-torch.diag_embed(p_BN) @ v_BhNd[:, head] @ shrink_Bdd)
    return torch.stack(heads, dim=1)
