"""Nyström attention."""
from __future__ import annotations

import torch
from torch import Tensor

from mmflatten.ops.precision import full_precision


@full_precision
def nystrom_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor, *, q_landmarks_Bhad: Tensor,
                      k_landmarks_Bhad: Tensor, bias: Tensor | None = None, iterations: int = 6) -> Tensor:
    """Softmax attention approximated through landmarks, `softmax(q K^T) pinv(softmax(Q K^T)) softmax(Q k^T) v`.

    The pseudo-inverse is computed iteratively, by matrix products. Cost: `2 a (N + M) C` multiply-accumulates for `a`
    landmarks, plus `4 a^3 h` per iteration. Source: Nyströmformer (Xiong et al., AAAI 2021), eqs. 13 and 14.

    Args:
        q_BhNd: queries `(B, h, N, d)`; logits are divided by `sqrt(d)`.
        k_BhMd: keys `(B, h, M, d)`.
        v_BhMe: values `(B, h, M, e)`.
        q_landmarks_Bhad: `Q`, means of queries `(B, h, a, d)`.
        k_landmarks_Bhad: `K`, means of keys.
        bias: added to the logits of the keys, broadcastable to `(B, h, a, M)`; `-inf` excludes a key.
        iterations: iterations of the pseudo-inverse.

    Returns:
        `(B, h, N, e)` in the type of `v`.
    """
    scale = q_BhNd.shape[-1] ** -.5
    q_BhNd, q_landmarks_Bhad = q_BhNd * scale, q_landmarks_Bhad * scale
    left_BhNa = (q_BhNd @ k_landmarks_Bhad.transpose(-2, -1)).softmax(-1)
    middle_Bhaa = (q_landmarks_Bhad @ k_landmarks_Bhad.transpose(-2, -1)).softmax(-1)
    logits_BhaM = q_landmarks_Bhad @ k_BhMd.transpose(-2, -1)
    right_BhaM = (logits_BhaM if bias is None else logits_BhaM + bias).softmax(-1)
    return left_BhNa @ (_pseudo_inverse(middle_Bhaa, iterations) @ (right_BhaM @ v_BhMe))


def _pseudo_inverse(a_Bhaa: Tensor, iterations: int) -> Tensor:
    """Run Razavi's iteration, starting from the transpose divided by its largest column and row sums."""
    sums = a_Bhaa.sum(-2).amax(-1) * a_Bhaa.sum(-1).amax(-1)
    inverse = a_Bhaa.transpose(-2, -1) / sums[..., None, None]
    eye = torch.eye(a_Bhaa.shape[-1], device=a_Bhaa.device, dtype=a_Bhaa.dtype)
    for _ in range(iterations):
        product = a_Bhaa @ inverse
        inverse = inverse / 4 @ (13 * eye - product @ (15 * eye - product @ (7 * eye - product)))
    return inverse
