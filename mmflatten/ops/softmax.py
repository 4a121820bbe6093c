"""Softmax attention."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.ops.sizes import is_open


def softmax_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor, *, bias: Tensor | None = None,
                      scale: float | None = None) -> Tensor:
    """Scaled dot-product attention, `softmax(q k^T * scale + bias) v`.

    Cost: `B h N M (d + e)` multiply-accumulates. Source: Vaswani et al., 2017, eq. 1.

    Args:
        q_BhNd: queries `(B, h, N, d)`.
        k_BhMd: keys `(B, h, M, d)`.
        v_BhMe: values `(B, h, M, e)`.
        bias: added to the logits before the softmax, broadcastable to `(B, h, N, M)`; `-inf` excludes a key.
        scale: factor of the logits, `d ** -0.5` by default.

    Returns:
        `(B, h, N, e)`.
    """
    if bias is not None:
        bias = bias.to(q_BhNd.dtype)
    # PyTorch's kernels compare the batch size with 1, which fixes a symbolic size. No CPU kernel has a gradient of the
    # bias; PyTorch's fallback copies the keys and searches three times for fully masked rows. The explicit formula is
    # used in float32 only, because its logits would overflow float16.
    learned = bias is not None and bias.requires_grad and torch.is_grad_enabled()
    cpu_float32 = q_BhNd.device.type == 'cpu' and q_BhNd.dtype == torch.float32 and not torch.is_autocast_enabled('cpu')
    if is_open(q_BhNd.shape[0]) or (learned and cpu_float32):
        logits = q_BhNd * (q_BhNd.shape[-1] ** -0.5 if scale is None else scale) @ k_BhMd.transpose(-2, -1)
        return (logits if bias is None else logits + bias).softmax(-1) @ v_BhMe
    return F.scaled_dot_product_attention(q_BhNd, k_BhMd, v_BhMe, attn_mask=bias, scale=scale)
