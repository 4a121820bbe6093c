"""Test-time training: attention as one step of gradient descent on keys and values."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.ops.precision import full_precision

_RATE = 1 / 3  # both networks divide the inner loss by the square root of a width of 9


@full_precision
def gated_test_time_training(
    q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, *, value_hdd: Tensor, gate_hdd: Tensor
) -> Tensor:
    """Gated network `(q W1) * silu(q W2)` after one step of gradient descent on `(k, v)`.

    The inner loss is `-sum v . f(k) / (3 M)`, the learning rate is 1, and each column `g` of a
    gradient is divided by `1 + |g|`. Cost: `6 N C d` multiply-accumulates. Source: ViT^3 (CVPR
    2026).

    Args:
        value_hdd: `W1` of each head before the step, `(h, d, d)`.
        gate_hdd: `W2` before the step.
    """
    inner = k_BhMd @ value_hdd
    gate = k_BhMd @ gate_hdd
    error = v_BhMd * (-_RATE / k_BhMd.shape[-2])
    sigmoid = gate.sigmoid()
    k_BhdM = k_BhMd.transpose(-2, -1)
    value_Bhdd = value_hdd - _clipped(k_BhdM @ (error * gate * sigmoid))
    gate_Bhdd = gate_hdd - _clipped(k_BhdM @ (error * inner * sigmoid * (1 + gate * (1 - sigmoid))))
    return q_BhNd @ value_Bhdd * F.silu(q_BhNd @ gate_Bhdd)


@full_precision
def conv_test_time_training(
    q_BCHW: Tensor, k_BCHW: Tensor, v_BCHW: Tensor, *, weight_C1yx: Tensor
) -> Tensor:
    """Depthwise convolution of the queries after one step of gradient descent on `(k, v)`.

    Loss and learning rate as in `gated_test_time_training`; the gradient of each channel's kernel
    is divided by 1 plus its norm. Cost: `18 N C` multiply-accumulates for 3 x 3.

    Args:
        q_BCHW: queries `(B, C, H, W)`.
        weight_C1yx: weights of the convolution before the step, `(C, 1, y, x)` with odd `y` and
            `x`.

    Returns:
        `(B, C, H, W)` in the type of `v`.
    """
    B, C, H, W = q_BCHW.shape
    if not q_BCHW.numel():
        return torch.zeros_like(q_BCHW)
    y, x = weight_C1yx.shape[-2:]
    padded = F.pad(k_BCHW, (x // 2, x // 2, y // 2, y // 2))
    error = v_BCHW * (-_RATE / (H * W))
    sums = []
    for row in range(y):
        for col in range(x):
            shifted = padded[..., row : row + H, col : col + W]
            sums.append((shifted * error).sum((-2, -1)))
    gradient_BCk = torch.stack(sums, dim=-1)
    gradient_BCk = gradient_BCk / (1 + torch.linalg.vector_norm(gradient_BCk, dim=-1, keepdim=True))
    weight = weight_C1yx - gradient_BCk.view(B, C, 1, y, x)
    out = F.conv2d(
        q_BCHW.reshape(1, B * C, H, W), weight.flatten(0, 1), padding=(y // 2, x // 2), groups=B * C
    )
    return out.view(B, C, H, W)


def _clipped(gradient: Tensor) -> Tensor:
    return gradient / (1 + torch.linalg.vector_norm(gradient, dim=-2, keepdim=True))


@full_precision
def swiglu_test_time_training(
    q_BhNd: Tensor,
    k_BhMd: Tensor,
    v_BhMd: Tensor,
    *,
    gate_hdd: Tensor,
    value_hdd: Tensor,
    out_hdd: Tensor,
) -> Tensor:
    """SwiGLU network `(silu(q W1) * (q W2)) W3` after one step of gradient descent on `(k, v)`.

    The inner loss is `-sum v . f(k) / (sqrt(d) M)`, the learning rate is 1. Cost: `9 N C d`
    multiply-accumulates.
    Source: Transformer-to-TTT (Li et al., 2026), released code of the ImageNet models.

    Args:
        gate_hdd, value_hdd, out_hdd: `W1`, `W2` and `W3` of each head before the step, `(h, d, d)`.
    """
    M, d = k_BhMd.shape[-2:]
    gate = k_BhMd @ gate_hdd
    inner = k_BhMd @ value_hdd
    sigmoid = gate.sigmoid()
    error = v_BhMd * (-1 / (M * d**0.5))
    k_BhdM = k_BhMd.transpose(-2, -1)
    back = error @ out_hdd.transpose(-2, -1)
    out_Bhdd = out_hdd - (gate * sigmoid * inner).transpose(-2, -1) @ error
    value_Bhdd = value_hdd - k_BhdM @ (back * gate * sigmoid)
    gate_Bhdd = gate_hdd - k_BhdM @ (back * inner * sigmoid * (1 + gate * (1 - sigmoid)))
    return (F.silu(q_BhNd @ gate_Bhdd) * (q_BhNd @ value_Bhdd)) @ out_Bhdd
