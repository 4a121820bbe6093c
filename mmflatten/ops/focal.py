"""Focal attention: softmax over keys gathered for each window."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from mmflatten.ops.sizes import contiguous
from mmflatten.ops.softmax import softmax_attention


def focal_attention(q_BhNd: Tensor, k_BhSd: Tensor, v_BhSe: Tensor, keys_WM: Tensor, *, bias_hnM: Tensor | None = None,
                    mask: Tensor | None = None, scale: float | None = None) -> Tensor:
    """Softmax attention in which the `n` queries of a window share a list of keys from anywhere.

    `softmax(q_w k[keys_w]^T * scale + bias) v[keys_w]` for each window `w`. A key that is listed twice counts twice.
    Cost: `B h N M (d + e)` multiply-accumulates. Source: Focal Transformer, sec. 3.2, eq. 3.

    Args:
        q_BhNd: queries `(B, h, W n, d)`, window after window.
        k_BhSd: keys `(B, h, S, d)`.
        v_BhSe: values `(B, h, S, e)`.
        keys_WM: indices into the `S` keys, `(W, M)`.
        bias_hnM: added to the logits, the same in every window.
        mask: boolean `(W, n or 1, M)`, true where attention is allowed.
        scale: factor of the logits, `d ** -0.5` by default.

    Returns:
        `(B, h, W n, e)`, whose heads merge without a copy.
    """
    (B, h, S, _), (W, M) = k_BhSd.shape, keys_WM.shape
    rows = (keys_WM + S * torch.arange(B, device=keys_WM.device)[:, None, None]).flatten()
    q = rearrange(q_BhNd, 'B h (W n) d -> (B W) h n d', W=W)
    # An embedding gathers whole rows, and its backward is fast on every device.
    k, v = (rearrange(F.embedding(rows, rearrange(x, 'B h S d -> (B S) (h d)')), '(B W M) (h d) -> (B W) h M d',
                      W=W, M=M, h=h) for x in (k_BhSd, v_BhSe))
    bias = None if bias_hnM is None else bias_hnM[None]
    if mask is not None:
        hidden = torch.zeros(mask.shape, dtype=q.dtype, device=q.device).masked_fill_(~mask, -torch.inf)[:, None]
        bias = (hidden if bias is None else bias.to(q.dtype) + hidden).repeat(B, 1, 1, 1)
    out = softmax_attention(q, k, v, bias=bias, scale=scale)
    return rearrange(contiguous(out.transpose(1, 2)), '(B W) n h e -> B (W n) h e', W=W).transpose(1, 2)
