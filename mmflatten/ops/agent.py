"""Agent attention."""
from __future__ import annotations

from torch import Tensor

from mmflatten.ops.softmax import softmax_attention


def agent_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor, agents_Bhad: Tensor, *,
                    key_bias: Tensor | None = None, query_bias: Tensor | None = None) -> Tensor:
    """Softmax attention through a few agent tokens, `softmax(q A^T + B2) softmax(A k^T + B1) v`.

    The agents attend to the keys, then the queries attend to the agents. Cost: `2 a (N + M) C` multiply-accumulates
    for `a` agents. Source: Agent Attention (Han et al., ECCV 2024), eq. 3.

    Args:
        q_BhNd: queries `(B, h, N, d)`; logits are divided by `sqrt(d)`.
        k_BhMd: keys `(B, h, M, d)`.
        v_BhMe: values `(B, h, M, e)`.
        agents_Bhad: agents `(B, h, a, d)`, usually pooled queries.
        key_bias: `B1`, broadcastable to `(B, h, a, M)`; `-inf` excludes a key.
        query_bias: `B2`, broadcastable to `(B, h, N, a)`.

    Returns:
        `(B, h, N, e)`.
    """
    gathered_Bhae = softmax_attention(agents_Bhad, k_BhMd, v_BhMe, bias=key_bias)
    return softmax_attention(q_BhNd, agents_Bhad, gathered_Bhae, bias=query_bias)
