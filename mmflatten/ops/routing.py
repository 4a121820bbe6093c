"""Bi-level routing attention."""
from __future__ import annotations

import torch
from torch import Tensor

from mmflatten.ops.softmax import softmax_attention


def routed_regions(q_BRnC: Tensor, k_BRnC: Tensor, topk: int, real_B1R: Tensor | None = None) -> Tensor:
    """Regions whose mean keys are most similar to the mean query of each region, `(B, R, topk)`, without gradients.

    Source: BiFormer (Zhu et al., CVPR 2023), eqs. 3 and 4.

    Args:
        q_BRnC: queries in `R` regions of `n` tokens.
        k_BRnC: keys.
        topk: number of regions; all of them if there are fewer.
        real_B1R: boolean mask of the regions that are not only padding; the others are chosen last.
    """
    with torch.no_grad():
        similarity_BRR = q_BRnC.mean(2) @ k_BRnC.mean(2).transpose(-2, -1)
        if real_B1R is not None:
            similarity_BRR = similarity_BRR.masked_fill(~real_B1R, -torch.inf)
        return similarity_BRR.topk(min(topk, similarity_BRR.shape[-1]), dim=-1).indices


def routing_attention(q_BhRnd: Tensor, k_BhRnd: Tensor, v_BhRnd: Tensor, routes_BRt: Tensor, *, scale: float,
                      bias: Tensor | None = None) -> Tensor:
    """Softmax attention from the tokens of each region to those of its routed regions.

    Cost: `2 N t n C` multiply-accumulates for `t` regions of `n` tokens. Source: BiFormer, eqs. 5 and 6.

    Args:
        q_BhRnd: queries `(B, h, R, n, d)` in `R` regions.
        k_BhRnd: keys.
        v_BhRnd: values.
        routes_BRt: result of `routed_regions`.
        scale: factor of the logits; in BiFormer `C ** -0.5`, not `d ** -0.5`.
        bias: added to the logits of the keys, `(B, 1, R, n)`; `-inf` excludes padding.

    Returns:
        `(B, h, R, n, d)`.
    """
    B, h, R, n, d = k_BhRnd.shape
    index = routes_BRt.flatten(1).unsqueeze(1)

    def gathered(x: Tensor) -> Tensor:
        picked = x.gather(2, index[..., None, None].expand(B, x.shape[1], -1, *x.shape[3:]))
        return picked.unflatten(2, (R, -1)).flatten(3, 4)

    if bias is not None:  # (B, 1, R, n) to (B, h R, 1, t n)
        bias = gathered(bias.unsqueeze(-1)).transpose(-2, -1).flatten(1, 2).repeat(1, h, 1, 1)
    y = softmax_attention(q_BhRnd.flatten(1, 2), gathered(k_BhRnd).flatten(1, 2), gathered(v_BhRnd).flatten(1, 2),
                          bias=bias, scale=scale)
    return y.unflatten(1, (h, R))
