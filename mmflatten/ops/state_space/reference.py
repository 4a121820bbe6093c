"""Explicit references of state spaces without an order of the tokens."""

from __future__ import annotations

import torch
from torch import Tensor


def state_space_attention(
    q_B1Ns: Tensor,
    k_B1Ns: Tensor,
    v_BhNe: Tensor,
    *,
    weight_BhN1: Tensor,
    skip: float | Tensor = 0.0,
) -> Tensor:
    """Reference of `mmflatten.ops.state_space_attention`: the matrix of token pairs,
    `(B, h, N, N)`.
    """
    matrix_BhNN = torch.einsum('bhns,bhms->bhnm', q_B1Ns, k_B1Ns) * weight_BhN1.transpose(-2, -1)
    identity_NN = torch.eye(v_BhNe.shape[-2], dtype=v_BhNe.dtype)
    return (matrix_BhNN + skip * identity_NN) @ v_BhNe


def hidden_state_attention(
    q_BNs: Tensor,
    k_BNs: Tensor,
    v_BNC: Tensor,
    *,
    logits_BNs: Tensor,
    state_weight: Tensor,
    out_weight: Tensor,
    skip: float | Tensor = 0.0,
    gate_BNC: Tensor | None = None,
) -> Tensor:
    """Reference of `mmflatten.ops.hidden_state_attention`, one state after the other."""
    value_weight, gate_weight = state_weight.chunk(2)
    gated_BNC = v_BNC if gate_BNC is None else gate_BNC
    parts = []
    for state in range(q_BNs.shape[-1]):
        exponentials_BN = logits_BNs[..., state].exp()
        weights_BN = exponentials_BN / exponentials_BN.sum(1, keepdim=True) * k_BNs[..., state]
        value_BC = torch.einsum('bn,bnc->bc', weights_BN, v_BNC)
        z_BE = torch.einsum('bn,bnc,ec->be', weights_BN, gated_BNC, gate_weight)
        inner_BE = torch.einsum('bc,ec->be', value_BC, value_weight) * (
            z_BE * z_BE.sigmoid() + skip
        )
        mixed_BC = torch.einsum('be,ce->bc', inner_BE, out_weight)
        parts.append(q_BNs[..., state, None] * mixed_BC[:, None])
    return torch.stack(parts).sum(0)
