"""Random features of Performer."""
from __future__ import annotations

import torch
from torch import Tensor

from mmflatten.ops.precision import full_precision


def orthogonal_features(number: int, width: int, generator: torch.Generator | None = None) -> Tensor:
    """Random directions `(number, width)`, orthogonal in blocks of `width`, with the lengths of Gaussian vectors."""
    blocks = [torch.linalg.qr(torch.randn(width, width, generator=generator))[0] for _ in range(-(-number // width))]
    lengths = torch.randn(number, width, generator=generator).norm(dim=-1, keepdim=True)
    return torch.cat(blocks)[:number] * lengths


def random_feature_map(x_BhNd: Tensor, features_fd: Tensor, *, over_tokens: bool,
                       real: Tensor | None = None) -> Tensor:
    """Positive random features of the softmax kernel, `exp(w . x / d^(1/4) - |x|^2 / (2 sqrt(d)) - max) / sqrt(f)`.

    The product of the features of `q` and `k` estimates `exp(q . k / sqrt(d))`, up to a factor that cancels.
    Source: Performer (Choromanski et al., ICLR 2021), eq. 8 and Lemma 1.

    Args:
        x_BhNd: queries or keys `(B, h, N, d)`.
        features_fd: directions `w`, `(f, d)`; the result has their type.
        over_tokens: range of the maximum, which keeps the exponential from overflowing: all tokens and features if
            True, required for keys; the features of each token if False, for queries.
        real: boolean mask of the tokens that are not padding, broadcastable to `(B, h, N, 1)`. The features of padding
            are 0. None: no padding.

    Returns:
        `(B, h, N, f)`.
    """
    return _features(x_BhNd, features_fd, features_fd, over_tokens=over_tokens, real=real)


@full_precision
def _features(x_BhNd: Tensor, features_fd: Tensor, like: Tensor, *, over_tokens: bool, real: Tensor | None) -> Tensor:
    width = x_BhNd.shape[-1]
    exponents = x_BhNd @ features_fd.transpose(0, 1) * width ** -.25
    exponents = exponents - x_BhNd.square().sum(-1, keepdim=True) / (2 * width ** .5)
    if real is not None:
        exponents = exponents.masked_fill(~real, -torch.inf)
    top = exponents.detach().amax(dim=(-2, -1) if over_tokens else -1, keepdim=True)
    features = ((exponents - top).exp() + 1e-4) * features_fd.shape[0] ** -.5
    return features if real is None else features.masked_fill(~real, 0.)
