"""State spaces without an order of the tokens."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from mmflatten.ops.precision import full_precision


@full_precision
def state_space_attention(
    q_B1Ns: Tensor,
    k_B1Ns: Tensor,
    v_BhNe: Tensor,
    *,
    weight_BhN1: Tensor,
    skip: float | Tensor = 0.0,
) -> Tensor:
    """Non-causal state space duality, `q (k^T (w * v)) + D v`: one hidden state per head, the sum
    over all tokens.

    In the terms of state spaces, queries are `C`, keys `B`, values the input and weights the
    discretised transition, here the weight of a token instead of a decay. Nothing is normalised.
    Cost: `2 B N s (h e)` multiply-accumulates for `s` states. Source: Shi et al., VSSD, 2024.

    Args:
        q_B1Ns: queries, `s` channels shared by all heads, or `(B, h, N, s)`.
        k_B1Ns: keys.
        v_BhNe: values of the same tokens.
        weight_BhN1: `w`.
        skip: `D`; a number, or a tensor broadcastable to `(B, h, 1, 1)`.
    """
    states_Bhse = k_B1Ns.transpose(-2, -1) @ (weight_BhN1 * v_BhNe)
    return q_B1Ns @ states_Bhse + skip * v_BhNe


@full_precision
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
    """Hidden state mixer, `q ((h W_h^T) * (silu(h W_z^T) + D)) W_out^T` with `h = (a * k)^T v`: the
    channels are mixed in the states, not in the tokens.

    `a` is the softmax of the logits over the tokens. Cost: `2 B N s C + 3 B s C E`
    multiply-accumulates for `s` states and `E` inner channels. Source: Lee et al., EfficientViM,
    2024, and its code.

    Args:
        q_BNs: `C` of the state space, with which tokens read the states.
        k_BNs: `B` of the state space.
        v_BNC: tokens.
        logits_BNs: logits of the weights; `-inf` excludes a token.
        state_weight: `W_h` and `W_z`, `(2 E, C)`.
        out_weight: `W_out`, `(C, E)`.
        skip: `D`; a number or a scalar tensor.
        gate_BNC: tokens whose states are the input of the gate, `v` by default.

    Returns:
        `(B, N, C)`.
    """
    weights_BsN = (logits_BNs.softmax(1) * k_BNs).transpose(1, 2)
    states_BsC = weights_BsN @ v_BNC
    gate_states_BsC = states_BsC if gate_BNC is None else weights_BsN @ gate_BNC
    value_weight, gate_weight = state_weight.chunk(2)
    inner_BsE = F.linear(states_BsC, value_weight)
    gate_BsE = F.silu(F.linear(gate_states_BsC, gate_weight)) + skip
    return q_BNs @ F.linear(inner_BsE * gate_BsE, out_weight)
