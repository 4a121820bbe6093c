"""Softmax attention, and its approximations through a few tokens."""

from __future__ import annotations

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from mmflatten.ops.precision import full_precision
from mmflatten.ops.sizes import is_open

# Without cuDNN, whose gradients contained NaN on an H200 with PyTorch 2.11 (98 tokens of CSwin-T,
# no mask).
_BACKENDS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def softmax_attention(
    q_BhNd: Tensor,
    k_BhMd: Tensor,
    v_BhMe: Tensor,
    *,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Scaled dot-product attention, `softmax(q k^T * scale + bias) v`.

    Cost: `B h N M (d + e)` multiply-accumulates. Source: Vaswani et al., 2017, eq. 1. Computed by
    PyTorch's fused kernels; on a GPU, cuDNN's are left out where gradients are computed.

    Args:
        bias: added to the logits before the softmax, broadcastable to `(B, h, N, M)`; `-inf`
            excludes a key.
        scale: factor of the logits, `d ** -0.5` by default.
    """
    if bias is not None:
        bias = bias.to(q_BhNd.dtype)
    # PyTorch's kernels compare the batch size with 1, which fixes a symbolic size. No CPU kernel
    # has a gradient of the bias; PyTorch's fallback copies the keys and searches three times for
    # fully masked rows. The explicit formula is used in float32 only, because its logits would
    # overflow float16.
    learned = bias is not None and bias.requires_grad and torch.is_grad_enabled()
    cpu_float32 = (
        q_BhNd.device.type == 'cpu'
        and q_BhNd.dtype == torch.float32
        and not torch.is_autocast_enabled('cpu')
    )
    if is_open(q_BhNd.shape[0]) or (learned and cpu_float32):
        scale = q_BhNd.shape[-1] ** -0.5 if scale is None else scale
        logits = q_BhNd * scale @ k_BhMd.transpose(-2, -1)
        if bias is not None:
            logits = logits + bias
        return logits.softmax(-1) @ v_BhMe

    has_grad = any(x is not None and x.requires_grad for x in (q_BhNd, k_BhMd, v_BhMe, bias))
    is_trained_on_gpu = q_BhNd.is_cuda and torch.is_grad_enabled() and has_grad
    # A caller who disabled cuDNN may have selected other backends, which are kept. A compiled graph
    # cannot read the setting.
    without_cudnn = is_trained_on_gpu and (
        torch.compiler.is_compiling() or torch.backends.cuda.cudnn_sdp_enabled()
    )
    with sdpa_kernel(_BACKENDS) if without_cudnn else nullcontext():
        return F.scaled_dot_product_attention(q_BhNd, k_BhMd, v_BhMe, attn_mask=bias, scale=scale)


def agent_attention(
    q_BhNd: Tensor,
    k_BhMd: Tensor,
    v_BhMe: Tensor,
    agents_Bhad: Tensor,
    *,
    key_bias: Tensor | None = None,
    query_bias: Tensor | None = None,
) -> Tensor:
    """Softmax attention through a few agent tokens, `softmax(q A^T + B2) softmax(A k^T + B1) v`.

    The agents attend to the keys, then the queries attend to the agents; all logits are divided by
    `sqrt(d)`. Cost: `2 a (N + M) C` multiply-accumulates for `a` agents. Source: Agent Attention
    (Han et al., ECCV 2024), eq. 3.

    Args:
        agents_Bhad: agents `(B, h, a, d)`, usually pooled queries.
        key_bias: `B1`, broadcastable to `(B, h, a, M)`; `-inf` excludes a key.
        query_bias: `B2`, broadcastable to `(B, h, N, a)`.
    """
    gathered_Bhae = softmax_attention(agents_Bhad, k_BhMd, v_BhMe, bias=key_bias)
    return softmax_attention(q_BhNd, agents_Bhad, gathered_Bhae, bias=query_bias)


@full_precision
def nystrom_attention(
    q_BhNd: Tensor,
    k_BhMd: Tensor,
    v_BhMe: Tensor,
    *,
    q_landmarks_Bhad: Tensor,
    k_landmarks_Bhad: Tensor,
    bias: Tensor | None = None,
    iterations: int = 6,
) -> Tensor:
    """Softmax attention approximated through landmarks, `softmax(q K^T) pinv(softmax(Q K^T))
    softmax(Q k^T) v`.

    All logits are divided by `sqrt(d)`. The pseudo-inverse is computed iteratively, by matrix
    products. Cost: `2 a (N + M) C` multiply-accumulates for `a` landmarks, plus `4 a^3 h` per
    iteration. Source: Nyströmformer (Xiong et al., AAAI 2021), eqs. 13 and 14.

    Args:
        q_landmarks_Bhad: `Q`, means of queries `(B, h, a, d)`.
        k_landmarks_Bhad: `K`, means of keys.
        bias: added to the logits of the keys, broadcastable to `(B, h, a, M)`; `-inf` excludes a
            key.
        iterations: iterations of the pseudo-inverse.
    """
    scale = q_BhNd.shape[-1] ** -0.5
    q_BhNd, q_landmarks_Bhad = q_BhNd * scale, q_landmarks_Bhad * scale
    left_BhNa = (q_BhNd @ k_landmarks_Bhad.transpose(-2, -1)).softmax(-1)
    middle_Bhaa = (q_landmarks_Bhad @ k_landmarks_Bhad.transpose(-2, -1)).softmax(-1)
    logits_BhaM = q_landmarks_Bhad @ k_BhMd.transpose(-2, -1)
    if bias is not None:
        logits_BhaM = logits_BhaM + bias
    right_BhaM = logits_BhaM.softmax(-1)
    return left_BhNa @ (_pseudo_inverse(middle_Bhaa, iterations) @ (right_BhaM @ v_BhMe))


def _pseudo_inverse(a_Bhaa: Tensor, iterations: int) -> Tensor:
    """Run Razavi's iteration, starting from the transpose divided by its largest column and row
    sums.
    """
    sums = a_Bhaa.sum(-2).amax(-1) * a_Bhaa.sum(-1).amax(-1)
    inverse = a_Bhaa.transpose(-2, -1) / sums[..., None, None]
    eye = torch.eye(a_Bhaa.shape[-1], device=a_Bhaa.device, dtype=a_Bhaa.dtype)
    for _ in range(iterations):
        product = a_Bhaa @ inverse
        inverse = inverse / 4 @ (13 * eye - product @ (15 * eye - product @ (7 * eye - product)))
    return inverse
