"""The explicit O(N^2) reference of every operator, for tests and analysis.

Each function has the name of its operator and forms the whole attention matrix `(B, h, N, M)` by
the textbook formula. `cosformer_scores` is the reference of products of `cosformer_map`. Newer
attentions are in `reference_frontier`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.ops.reference_frontier import *  # noqa: F401,F403


def softmax_attention(
    q_BhNd: Tensor,
    k_BhMd: Tensor,
    v_BhMe: Tensor,
    *,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Reference of `mmflatten.ops.softmax_attention`."""
    scale = q_BhNd.shape[-1] ** -0.5 if scale is None else scale
    logits = q_BhNd @ k_BhMd.transpose(-2, -1) * scale
    if bias is not None:
        logits = logits + bias
    return logits.softmax(dim=-1) @ v_BhMe


def kernel_product(
    q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor, scale: float | Tensor = 1.0
) -> Tensor:
    """Reference of `mmflatten.ops.kernel_product`."""
    return scale * torch.einsum('bhnd,bhmd,bhme->bhne', q_BhNd, k_BhMd, v_BhMe)


def linear_attention_matrix(
    q_BhNd: Tensor,
    k_BhMd: Tensor,
    *,
    eps: float | Tensor = 1e-6,
    min_denominator: float | None = None,
) -> Tensor:
    """The implicit attention matrix of `mmflatten.ops.linear_attention`, `(B, h, N, M)`."""
    scores = q_BhNd @ k_BhMd.transpose(-2, -1)
    total = scores.sum(dim=-1, keepdim=True)
    if min_denominator is not None:
        return scores / total.clamp(min=min_denominator)
    return scores / (total + eps * k_BhMd.shape[-2])


def linear_attention(
    q_BhNd: Tensor,
    k_BhMd: Tensor,
    v_BhMe: Tensor,
    *,
    eps: float | Tensor = 1e-6,
    min_denominator: float | None = None,
    scale: float | Tensor = 1.0,
    local_BhNe: Tensor | None = None,
    rotated_q_BhNd: Tensor | None = None,
    rotated_k_BhMd: Tensor | None = None,
) -> Tensor:
    """Reference of `mmflatten.ops.linear_attention`."""
    matrix = linear_attention_matrix(q_BhNd, k_BhMd, eps=eps, min_denominator=min_denominator)
    if rotated_q_BhNd is not None and rotated_k_BhMd is not None:
        plain, rotated = (
            q @ k.transpose(-2, -1) for q, k in ((q_BhNd, k_BhMd), (rotated_q_BhNd, rotated_k_BhMd))
        )
        matrix = matrix * rotated / plain
    out_BhNe = scale * matrix @ v_BhMe
    return out_BhNe if local_BhNe is None else out_BhNe + local_BhNe


def focused_map(x: Tensor, focusing_factor: float) -> Tensor:
    """Reference of `mmflatten.ops.focused_map`."""
    powered = x**focusing_factor
    return (
        powered
        / powered.square().sum(-1, keepdim=True).sqrt()
        * x.square().sum(-1, keepdim=True).sqrt()
    )


def efficient_attention_matrix(q_BhNd: Tensor, k_BhMd: Tensor) -> Tensor:
    """The implicit attention matrix of `mmflatten.ops.efficient_attention`, `(B, h, N, M)`."""
    return q_BhNd.softmax(-1) @ k_BhMd.softmax(-2).transpose(-2, -1)


def efficient_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Reference of `mmflatten.ops.efficient_attention`."""
    return efficient_attention_matrix(q_BhNd, k_BhMd) @ v_BhMe


def _unit(x: Tensor, dim: int = -1) -> Tensor:
    return x / x.square().sum(dim, keepdim=True).sqrt()


def hydra_attention(q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor) -> Tensor:
    """Reference of `mmflatten.ops.hydra_attention`: one head and one `(N, M)` matrix per
    channel.
    """
    matrix_BCNM = _unit(q_BNC).transpose(1, 2)[..., None] * _unit(k_BMC).transpose(1, 2)[:, :, None]
    return (matrix_BCNM @ v_BMC.transpose(1, 2)[..., None])[..., 0].transpose(1, 2)


def angular_attention(
    q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor, *, own_BhNe: Tensor | None = None
) -> Tensor:
    """Reference of `mmflatten.ops.angular_attention`."""
    scores = _unit(q_BhNd) @ _unit(k_BhMd).transpose(-2, -1) / torch.pi
    return _unit((v_BhMe if own_BhNe is None else own_BhNe) / 2 + scores @ v_BhMe)


def cross_covariance_attention(
    q_BhNd: Tensor, k_BhNd: Tensor, v_BhNd: Tensor, *, temperature: float | Tensor = 1.0
) -> Tensor:
    """Reference of `mmflatten.ops.cross_covariance_attention`: every entry of the channel
    matrix.
    """
    logits = torch.einsum('bhni,bhnj->bhij', _unit(q_BhNd, -2), _unit(k_BhNd, -2)) * temperature
    weights = logits.exp() / logits.exp().sum(-1, keepdim=True)
    return torch.einsum('bhij,bhnj->bhni', weights, v_BhNd)


def cosformer_scores(
    q_BhNd: Tensor, k_BhMd: Tensor, q_shape: tuple[int, int], k_shape: tuple[int, int]
) -> Tensor:
    """Products of tokens under `mmflatten.ops.cosformer_map`, from the cosines of their distances,
    `(B, h, N, M)`.

    Prefix tokens are not supported.
    """
    (H, W), (h, w) = q_shape, k_shape
    q_index, k_index = (torch.arange(n, dtype=q_BhNd.dtype) for n in (H * W, h * w))
    rows = (q_index // W / H)[:, None] - k_index // w / h
    cols = (q_index % W / W)[:, None] - k_index % w / w
    weights = (rows * torch.pi / 2).cos() * (cols * torch.pi / 2).cos()
    return q_BhNd @ k_BhMd.transpose(-2, -1) * weights


def rotary_normalized(x_BNC: Tensor, hw_shape: tuple[int, int], periods_p: Tensor) -> Tensor:
    """Rotary positions over a map from -1 to 1, by one `d x d` matrix for every token and head."""
    number, (H, W) = len(periods_p), hw_shape
    x_BNhd, prefix = x_BNC.unflatten(-1, (-1, 4 * number)), x_BNC.shape[1] - H * W
    matrices_Ndd = torch.eye(4 * number, dtype=x_BNC.dtype).repeat(x_BNC.shape[1], 1, 1)
    for n in range(H * W):
        places = ((2 * (n // W) + 1) / H - 1, (2 * (n % W) + 1) / W - 1)
        for j in range(2 * number):
            angle = 2 * torch.pi * places[j // number] / periods_p[j % number]
            a, b, matrix = j, j + 2 * number, matrices_Ndd[prefix + n]
            matrix[a, a] = matrix[b, b] = angle.cos()
            matrix[a, b], matrix[b, a] = -angle.sin(), angle.sin()
    return torch.einsum('Nde,BNhe->BNhd', matrices_Ndd, x_BNhd).flatten(2)


def sima_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Reference of `mmflatten.ops.sima_attention`."""
    q_BhNd, k_BhMd = (x / x.abs().sum(-2, keepdim=True) for x in (q_BhNd, k_BhMd))
    return (q_BhNd @ k_BhMd.transpose(-2, -1)) @ v_BhMe


def dot_attention_matrix(q_BhNd: Tensor, k_BhMd: Tensor) -> Tensor:
    """Attention matrix of the two dot-product forms, `(B, h, N, M)`."""
    return torch.einsum('bhnd,bhmd->bhnm', q_BhNd, k_BhMd) / q_BhNd.shape[-1]


def factorized_dot_attention(c_BhNd: Tensor, b_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Reference of `mmflatten.ops.factorized_dot_attention`, and of
    `conventional_dot_attention`.
    """
    return torch.einsum('bhnm,bhme->bhne', dot_attention_matrix(c_BhNd, b_BhMd), v_BhMe)


conventional_dot_attention = factorized_dot_attention


def conventional_gaussian_matrix(q_BhNd: Tensor, k_BhMd: Tensor) -> Tensor:
    """Attention matrix of `mmflatten.ops.conventional_gaussian_attention`, `(B, h, N, M)`."""
    logits = torch.einsum('bhnd,bhmd->bhnm', q_BhNd, k_BhMd)
    weights = (logits - logits.amax(-1, keepdim=True)).exp()
    return weights / weights.sum(-1, keepdim=True)


def conventional_gaussian_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Reference of `mmflatten.ops.conventional_gaussian_attention`."""
    return torch.einsum('bhnm,bhme->bhne', conventional_gaussian_matrix(q_BhNd, k_BhMd), v_BhMe)


def focal_attention(
    q_BhNd: Tensor,
    k_BhSd: Tensor,
    v_BhSe: Tensor,
    keys_WM: Tensor,
    *,
    bias_hnM: Tensor | None = None,
    mask: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Reference of `mmflatten.ops.focal_attention`: every query with every key, as often as it is
    listed.

    A key listed with biases `b1` and `b2` has the weight `exp(q k * scale) (exp(b1) + exp(b2))`.
    """
    h, N, d = q_BhNd.shape[1:]
    W, M = keys_WM.shape
    n = N // W
    scale = d**-0.5 if scale is None else scale
    factor_hnM = q_BhNd.new_ones(h, n, M) if bias_hnM is None else bias_hnM.exp()
    allowed_WnM = (
        torch.ones_like(keys_WM)[:, None].expand(W, n, M) if mask is None else mask.expand(W, n, M)
    )
    listed_WMS = F.one_hot(keys_WM, k_BhSd.shape[2]).to(q_BhNd.dtype)
    factor_hNS = torch.einsum(
        'hnm,wnm,wms->hwns', factor_hnM, allowed_WnM.to(q_BhNd.dtype), listed_WMS
    ).flatten(1, 2)
    logits = q_BhNd @ k_BhSd.transpose(-2, -1) * scale
    weights = (logits - logits.amax(dim=-1, keepdim=True)).exp() * factor_hNS
    return weights / weights.sum(dim=-1, keepdim=True) @ v_BhSe


def concat_cost_volume(left_BCHW: Tensor, right_BCHW: Tensor, num_shifts: int) -> Tensor:
    """Reference of `mmflatten.ops.concat_cost_volume`, column by column."""
    zeros = left_BCHW.new_zeros(*left_BCHW.shape[:1], 2 * left_BCHW.shape[1], left_BCHW.shape[2])
    shifts = []
    for d in range(num_shifts):
        columns = [
            torch.cat((left_BCHW[..., x], right_BCHW[..., x - d]), 1) if x >= d else zeros
            for x in range(left_BCHW.shape[-1])
        ]
        shifts.append(torch.stack(columns, -1))
    return torch.stack(shifts, 2)


def soft_argmax_disparity(score_BDHW: Tensor) -> Tensor:
    """Reference of `mmflatten.ops.soft_argmax_disparity`."""
    weights = [score.exp() for score in (score_BDHW - score_BDHW.amax(1, keepdim=True)).unbind(1)]
    return torch.stack([d * weight for d, weight in enumerate(weights)]).sum(0) / torch.stack(
        weights
    ).sum(0)
