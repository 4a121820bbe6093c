"""Attentions derived as gradient steps on a rate of compression."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from mmflatten.ops.precision import no_autocast, upcast


def contract_and_broadcast_attention(
    q_Bhad: Tensor,
    k_BhNd: Tensor,
    v_BhNe: Tensor,
    *,
    pooled_Bhae: Tensor,
    contraction: float | Tensor = 1.0,
    bias: Tensor | None = None,
) -> Tensor:
    """Contract a few representatives towards the tokens, then broadcast them back,
    `A^T softmax(s R R^T) (P + t A v)`.

    `A = softmax(s q k^T + bias)` with `s = d ** -0.5`, `R = q + t A k`, and the result has one row
    for each key. CBSA has one projection for all: the representatives `q` and `P` are the same
    pooled tokens, and `k` is `v`. Values that are the same tensor as the keys are gathered once.
    Cost: `3 B a N C` multiply-accumulates for `a` representatives then, else `4 B a N C`, plus
    `2 B a^2 C`. Source: Wen et al., Towards Interpretable and Efficient Attention, 2025, and its
    code.

    Args:
        q_Bhad: representatives, whose products are logits.
        k_BhNd: keys of the tokens.
        v_BhNe: values of the tokens.
        pooled_Bhae: `P`, the values of the representatives.
        contraction: `t`; a number, or a tensor broadcastable to `(B, h, 1, 1)`.
        bias: added to the logits of the tokens, broadcastable to `(B, h, a, N)`; `-inf` excludes a
            token, whose result is 0.

    Returns:
        `(B, h, N, e)`.
    """
    dtype = v_BhNe.dtype
    is_shared = v_BhNe is k_BhNd
    q_Bhad, k_BhNd, v_BhNe, pooled_Bhae = upcast(q_Bhad, k_BhNd, v_BhNe, pooled_Bhae)
    if isinstance(contraction, Tensor):
        (contraction,) = upcast(contraction)
    scale = q_Bhad.shape[-1] ** -0.5
    with no_autocast(q_Bhad):
        logits_BhaN = q_Bhad * scale @ k_BhNd.transpose(-2, -1)
        if bias is not None:
            logits_BhaN = logits_BhaN + bias
        weights_BhaN = logits_BhaN.softmax(-1)

        # Contract: a step of each representative towards the tokens that it attends to.
        gathered_k_Bhad = weights_BhaN @ k_BhNd
        gathered_v_Bhae = gathered_k_Bhad if is_shared else weights_BhaN @ v_BhNe
        moved_q_Bhad = q_Bhad + contraction * gathered_k_Bhad
        moved_v_Bhae = pooled_Bhae + contraction * gathered_v_Bhae

        # The representatives attend to each other; the transposed weights broadcast the result.
        mixing_Bhaa = (moved_q_Bhad * scale @ moved_q_Bhad.transpose(-2, -1)).softmax(-1)
        y_BhNe = weights_BhaN.transpose(-2, -1) @ (mixing_Bhaa @ moved_v_Bhae)
    return y_BhNe.to(dtype)


def token_statistics_attention(
    w_BhNd: Tensor,
    v_BhNd: Tensor,
    *,
    temperature_h1: Tensor,
    real_B1N: Tensor | None = None,
    eps: float = 1e-8,
) -> Tensor:
    """Shrink each channel of a head by its second moment, `-p v / (1 + m)`, without products
    between tokens.

    `p_hn` is the softmax over the heads of `t_h sum_d w'_hnd^2`, the membership of a token in a
    head, with `w'` of unit length along the tokens. `m_hd = sum_n p_hn w_hnd^2 / (sum_n p_hn +
    eps)`. TSSA has `v = w`. Cost: `B N C` multiply-accumulates. Source: Wu et al., Token Statistics
    Transformer, 2024, eq. 10 for the memberships; unit lengths, temperatures and `eps` are those of
    the released code.

    Args:
        w_BhNd: projected tokens, from which memberships and moments are computed.
        v_BhNd: tokens to shrink.
        temperature_h1: `t`.
        real_B1N: True for real tokens; padding is excluded from lengths and moments.

    Returns:
        `(B, h, N, d)`, in the type of `v`.
    """
    dtype = v_BhNd.dtype
    w_BhNd, v_BhNd, temperature_h1 = upcast(w_BhNd, v_BhNd, temperature_h1)
    with no_autocast(w_BhNd):
        if real_B1N is not None:
            w_BhNd = w_BhNd * real_B1N.unsqueeze(-1)
        energy_BhN = F.normalize(w_BhNd, dim=-2).square().sum(-1)
        membership_BhN = (energy_BhN * temperature_h1).softmax(1)
        counted_BhN = membership_BhN if real_B1N is None else membership_BhN * real_B1N
        fraction_BhN = counted_BhN / (counted_BhN.sum(-1, keepdim=True) + eps)
        moment_Bh1d = fraction_BhN.unsqueeze(-2) @ w_BhNd.square()
        y_BhNd = -membership_BhN.unsqueeze(-1) * v_BhNd / (1 + moment_Bh1d)
    return y_BhNd.to(dtype)
