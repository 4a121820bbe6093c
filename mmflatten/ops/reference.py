"""The explicit O(N^2) twin of every operator, for tests and analysis.

Each function has the name of its operator and forms the whole attention matrix `(B, h, N, M)` by the textbook formula.
`cosformer_scores` is the twin of products of `cosformer_map`. The twins of focal, factorized and newer attentions are
defined in separate files and imported here.
"""
from __future__ import annotations

import torch
from torch import Tensor

from mmflatten.ops.reference_factorized import (
    conventional_dot_attention,
    conventional_gaussian_attention,
    conventional_gaussian_matrix,
    dot_attention_matrix,
    factorized_dot_attention,
)
from mmflatten.ops.reference_focal import focal_attention
from mmflatten.ops.reference_frontier import (
    agent_attention,
    block_linear_attention,
    circulant_attention,
    conv_test_time_training,
    gated_test_time_training,
    inline_attention,
    magnitude_aware_attention,
    manhattan_attention,
    neighborhood_attention,
    nystrom_attention,
    rotary_2d,
)

__all__ = [
    'agent_attention', 'angular_attention', 'block_linear_attention', 'circulant_attention',
    'conv_test_time_training', 'conventional_dot_attention', 'conventional_gaussian_attention',
    'conventional_gaussian_matrix', 'cosformer_scores', 'cross_covariance_attention', 'dot_attention_matrix',
    'efficient_attention', 'efficient_attention_matrix', 'factorized_dot_attention', 'focal_attention',
    'focused_features', 'focused_map', 'gated_test_time_training', 'hydra_attention', 'inline_attention',
    'kernel_product', 'linear_attention', 'linear_attention_matrix', 'magnitude_aware_attention',
    'manhattan_attention', 'neighborhood_attention', 'nystrom_attention', 'rotary_2d', 'sima_attention',
    'softmax_attention',
]


def softmax_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor, *, bias: Tensor | None = None,
                      scale: float | None = None) -> Tensor:
    """Twin of `mmflatten.ops.softmax_attention`."""
    scale = q_BhNd.shape[-1] ** -0.5 if scale is None else scale
    logits = q_BhNd @ k_BhMd.transpose(-2, -1) * scale
    if bias is not None:
        logits = logits + bias
    return logits.softmax(dim=-1) @ v_BhMe


def kernel_product(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor, scale: float | Tensor = 1.) -> Tensor:
    """Twin of `mmflatten.ops.kernel_product`."""
    return scale * torch.einsum('bhnd,bhmd,bhme->bhne', q_BhNd, k_BhMd, v_BhMe)


def linear_attention_matrix(q_BhNd: Tensor, k_BhMd: Tensor, *, eps: float | Tensor = 1e-6,
                            min_denominator: float | None = None) -> Tensor:
    """The implicit attention matrix of `mmflatten.ops.linear_attention`, `(B, h, N, M)`."""
    scores = q_BhNd @ k_BhMd.transpose(-2, -1)
    total = scores.sum(dim=-1, keepdim=True)
    if min_denominator is not None:
        return scores / total.clamp(min=min_denominator)
    return scores / (total + eps * k_BhMd.shape[-2])


def linear_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor, *, eps: float | Tensor = 1e-6,
                     min_denominator: float | None = None, scale: float | Tensor = 1.,
                     local_BhNe: Tensor | None = None, rotated_q_BhNd: Tensor | None = None,
                     rotated_k_BhMd: Tensor | None = None) -> Tensor:
    """Twin of `mmflatten.ops.linear_attention`."""
    matrix = linear_attention_matrix(q_BhNd, k_BhMd, eps=eps, min_denominator=min_denominator)
    if rotated_q_BhNd is not None and rotated_k_BhMd is not None:
        plain, rotated = (q @ k.transpose(-2, -1) for q, k in (
            (q_BhNd, k_BhMd), (rotated_q_BhNd, rotated_k_BhMd)))
        matrix = matrix * rotated / plain
    out_BhNe = scale * matrix @ v_BhMe
    return out_BhNe if local_BhNe is None else out_BhNe + local_BhNe


def focused_map(x: Tensor, focusing_factor: float) -> Tensor:
    """Twin of `mmflatten.ops.focused_map`."""
    powered = x ** focusing_factor
    return powered / powered.square().sum(-1, keepdim=True).sqrt() * x.square().sum(-1, keepdim=True).sqrt()


def focused_features(x_BNC: Tensor, rescale_C: Tensor, num_heads: int, *, focusing_factor: float, floor: float,
                     position_1NC: Tensor | None = None) -> Tensor:
    """Twin of `mmflatten.ops.focused_features`."""
    placed_BNC = x_BNC if position_1NC is None else x_BNC + position_1NC
    features_BNC = focused_map((placed_BNC.clamp(min=0) + floor) * rescale_C, focusing_factor)
    return features_BNC.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def efficient_attention_matrix(q_BhNd: Tensor, k_BhMd: Tensor) -> Tensor:
    """The implicit attention matrix of `mmflatten.ops.efficient_attention`, `(B, h, N, M)`."""
    return q_BhNd.softmax(-1) @ k_BhMd.softmax(-2).transpose(-2, -1)


def efficient_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Twin of `mmflatten.ops.efficient_attention`."""
    return efficient_attention_matrix(q_BhNd, k_BhMd) @ v_BhMe


def _unit(x: Tensor, dim: int = -1) -> Tensor:
    return x / x.square().sum(dim, keepdim=True).sqrt()


def hydra_attention(q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor) -> Tensor:
    """Twin of `mmflatten.ops.hydra_attention`: one head and one `(N, M)` matrix per channel."""
    matrix_BCNM = _unit(q_BNC).transpose(1, 2)[..., None] * _unit(k_BMC).transpose(1, 2)[:, :, None]
    return (matrix_BCNM @ v_BMC.transpose(1, 2)[..., None])[..., 0].transpose(1, 2)


def angular_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor, *, own_BhNe: Tensor | None = None) -> Tensor:
    """Twin of `mmflatten.ops.angular_attention`."""
    scores = _unit(q_BhNd) @ _unit(k_BhMd).transpose(-2, -1) / torch.pi
    return _unit((v_BhMe if own_BhNe is None else own_BhNe) / 2 + scores @ v_BhMe)


def cross_covariance_attention(q_BhNd: Tensor, k_BhNd: Tensor, v_BhNd: Tensor, *,
                               temperature: float | Tensor = 1.) -> Tensor:
    """Twin of `mmflatten.ops.cross_covariance_attention`: every entry of the channel matrix."""
    logits = torch.einsum('bhni,bhnj->bhij', _unit(q_BhNd, -2), _unit(k_BhNd, -2)) * temperature
    weights = logits.exp() / logits.exp().sum(-1, keepdim=True)
    return torch.einsum('bhij,bhnj->bhni', weights, v_BhNd)


def cosformer_scores(q_BhNd: Tensor, k_BhMd: Tensor, q_shape: tuple[int, int], k_shape: tuple[int, int]) -> Tensor:
    """Products of tokens under `mmflatten.ops.cosformer_map`, from the cosines of their distances, `(B, h, N, M)`.

    Prefix tokens are not supported.
    """
    (H, W), (h, w) = q_shape, k_shape
    q_index, k_index = (torch.arange(n, dtype=q_BhNd.dtype) for n in (H * W, h * w))
    rows = (q_index // W / H)[:, None] - k_index // w / h
    cols = (q_index % W / W)[:, None] - k_index % w / w
    weights = (rows * torch.pi / 2).cos() * (cols * torch.pi / 2).cos()
    return q_BhNd @ k_BhMd.transpose(-2, -1) * weights


def sima_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Twin of `mmflatten.ops.sima_attention`."""
    q_BhNd, k_BhMd = (x / x.abs().sum(-2, keepdim=True) for x in (q_BhNd, k_BhMd))
    return (q_BhNd @ k_BhMd.transpose(-2, -1)) @ v_BhMe
