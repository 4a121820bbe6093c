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
    """Softmax attention with one list of keys for the `n` queries of each window.

    `softmax(q_w k[keys_w]^T * scale + bias) v[keys_w]` for each window `w`. The keys may lie anywhere on the map. A key
    listed twice counts twice.
    Cost: `B h N M (d + e)` multiply-accumulates. Source: Focal Transformer, sec. 3.2, eq. 3.

    Args:
        q_BhNd: queries `(B, h, W n, d)`, grouped by window.
        k_BhSd: keys `(B, h, S, d)`.
        v_BhSe: values `(B, h, S, e)`.
        keys_WM: indices into the `S` keys, `(W, M)`.
        bias_hnM: added to the logits, the same in every window.
        mask: boolean `(W, n or 1, M)`, true where attention is allowed.
        scale: factor of the logits, `d ** -0.5` by default.

    Returns:
        `(B, h, W n, e)`, in a memory layout that `merge_heads` does not copy.
    """
    h, W = k_BhSd.shape[1], keys_WM.shape[0]
    # Fold windows into heads, so that one bias and mask serve all images.
    q = rearrange(q_BhNd, 'B h (W n) d -> B (W h) n d', W=W)
    k, v = (_gather(x, keys_WM) for x in (k_BhSd, v_BhSe))
    bias = None if bias_hnM is None else bias_hnM.to(q.dtype)
    if mask is not None:
        hidden = torch.zeros(mask.shape, dtype=q.dtype, device=q.device).masked_fill_(~mask, -torch.inf)[:, None]
        bias = hidden if bias is None else bias + hidden
    if bias is not None:
        bias = bias.expand(W, h, -1, -1).flatten(0, 1)[None]
    out = softmax_attention(q, k, v, bias=bias, scale=scale)
    return contiguous(rearrange(out, 'B (W h) n e -> B W n h e', W=W)).flatten(1, 2).transpose(1, 2)


def _gather(x_BhSd: Tensor, keys_WM: Tensor) -> Tensor:
    """Gather the keys or values of every window and head, `(B, W h, M, d)`.

    `F.embedding` gathers rows, and its backward is fast on every device, faster with fewer rows. With gradients the
    rows are therefore whole tokens, whose heads are separated by another copy; without gradients the rows are heads.
    """
    (B, h, S, _), device = x_BhSd.shape, x_BhSd.device
    tokens_BWM = keys_WM + S * torch.arange(B, device=device)[:, None, None]
    if x_BhSd.requires_grad and torch.is_grad_enabled():
        x = F.embedding(tokens_BWM, rearrange(x_BhSd, 'B h S d -> (B S) (h d)'))
        return rearrange(x, 'B W M (h d) -> B (W h) M d', h=h)
    rows_BWhM = h * tokens_BWM[:, :, None] + torch.arange(h, device=device)[:, None]
    return F.embedding(rows_BWhM.flatten(1, 2), rearrange(x_BhSd, 'B h S d -> (B S h) d'))
