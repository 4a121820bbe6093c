"""Positive feature maps of linear attention."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.ops.precision import full_precision


def signed_parts(x: Tensor) -> Tensor:
    """Concatenate the positive and the negative part, `(..., d) -> (..., 2 d)`."""
    return torch.cat((F.relu(x), F.relu(-x)), dim=-1)


def positive_power(x: Tensor, exponent: Tensor) -> Tensor:
    """Return `x ** exponent` for non-negative `x`. The gradients of both arguments are finite at
    0.
    """
    positive = x > 0
    return torch.where(positive, torch.where(positive, x, 1.0).log().mul(exponent).exp(), 0.0)


def focused_map(x: Tensor, focusing_factor: float) -> Tensor:
    """Sharpen the direction of each token and keep its norm,
    `f_p(x) = ||x|| / ||x ** p|| * x ** p`.

    Source: FLatten Transformer, eq. 6 and Proposition 1. The norm runs over the last axis, which in
    the official code holds the channels of all heads.

    Args:
        x: positive tokens `(..., C)`.
        focusing_factor: the power `p`; 1 is the identity.

    Returns:
        `(..., C)`.
    """
    # The scale of a token cancels in its direction. Without this, high powers leave the range of
    # float32.
    unscaled = x / x.amax(dim=-1, keepdim=True) if focusing_factor > 3 else x
    powered = unscaled.pow(focusing_factor)
    norm, powered_norm = (torch.linalg.vector_norm(y, dim=-1, keepdim=True) for y in (x, powered))
    return powered * (norm / powered_norm)


def orthogonal_features(
    number: int, width: int, generator: torch.Generator | None = None
) -> Tensor:
    """Random directions `(number, width)`, orthogonal in blocks of `width`, with the lengths of
    Gaussian vectors.
    """
    blocks = [
        torch.linalg.qr(torch.randn(width, width, generator=generator))[0]
        for _ in range(-(-number // width))
    ]
    lengths = torch.randn(number, width, generator=generator).norm(dim=-1, keepdim=True)
    return torch.cat(blocks)[:number] * lengths


def random_feature_map(
    x_BhNd: Tensor, features_fd: Tensor, *, over_tokens: bool, real: Tensor | None = None
) -> Tensor:
    """Positive random features of the softmax kernel, `exp(w . x / d^(1/4) - |x|^2 / (2 sqrt(d)) -
    max) / sqrt(f)`.

    The product of the features of `q` and `k` estimates `exp(q . k / sqrt(d))`, up to a factor that
    cancels.
    Source: Performer (Choromanski et al., ICLR 2021), eq. 8 and Lemma 1.

    Args:
        x_BhNd: queries or keys `(B, h, N, d)`.
        features_fd: directions `w`, `(f, d)`; the result has their type.
        over_tokens: range of the maximum, which keeps the exponential from overflowing: all tokens
            and features if True, required for keys; the features of each token if False, for
            queries.
        real: boolean mask of the tokens that are not padding, broadcastable to `(B, h, N, 1)`. The
            features of padding are 0. None: no padding.

    Returns:
        `(B, h, N, f)`.
    """
    return _features(x_BhNd, features_fd, features_fd, over_tokens=over_tokens, real=real)


@full_precision
def _features(
    x_BhNd: Tensor, features_fd: Tensor, like: Tensor, *, over_tokens: bool, real: Tensor | None
) -> Tensor:
    width = x_BhNd.shape[-1]
    exponents = x_BhNd @ features_fd.transpose(0, 1) * width**-0.25
    exponents = exponents - x_BhNd.square().sum(-1, keepdim=True) / (2 * width**0.5)
    if real is not None:
        exponents = exponents.masked_fill(~real, -torch.inf)
    top = exponents.detach().amax(dim=(-2, -1) if over_tokens else -1, keepdim=True)
    features = ((exponents - top).exp() + 1e-4) * features_fd.shape[0] ** -0.5
    return features if real is None else features.masked_fill(~real, 0.0)


def cosformer_map(x_BhNd: Tensor, hw_shape: tuple[int, int]) -> Tensor:
    """Re-weight positive tokens so that their scores decrease with the distance along both axes of
    the map.

    The product of two re-weighted tokens at `(y, x)` and `(y', x')` is their original product times
    `cos(pi/2 (y - y') / H) cos(pi/2 (x - x') / W)`. cosFormer (Qin et al., 2022, eq. 10) has one
    axis and two features per channel. With two axes the product of both cosines is still positive
    and needs four features. Positions are fractions of the map, so queries and keys may come from
    maps of different sizes. Prefix tokens (a class token) are placed at the centre.

    Args:
        x_BhNd: positive tokens `(B, h, N, d)`, prefix tokens first, `N >= H W`.
        hw_shape: `(H, W)` of their map.

    Returns:
        `(B, h, N, 4 d)`.
    """
    H, W = hw_shape
    rows, cols = (
        torch.arange(side, device=x_BhNd.device, dtype=x_BhNd.dtype) / side for side in (H, W)
    )
    y, x = rows[:, None].expand(H, W).flatten(), cols.expand(H, W).flatten()
    prefix = x_BhNd.new_full((x_BhNd.shape[-2] - H * W,), 0.5)
    y, x = (torch.cat((prefix, position))[:, None] * (math.pi / 2) for position in (y, x))
    weights = (y.cos() * x.cos(), y.cos() * x.sin(), y.sin() * x.cos(), y.sin() * x.sin())
    return torch.cat([x_BhNd * weight for weight in weights], dim=-1)
