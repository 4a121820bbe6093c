"""Positive feature maps of linear attention."""
from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual

from mmflatten.ops.heads import split_heads
from mmflatten.ops.precision import full_precision

BLOCK_ELEMENTS = 2 ** 17  # half a megabyte in float32


def token_blocks(x_BNC: Tensor) -> Iterator[tuple[slice, slice]]:
    """Yield slices of images and tokens, `x_BNC[block]`, that fit in the CPU cache. On a GPU there is one block."""
    B, N, C = x_BNC.shape
    if x_BNC.device.type != 'cpu':
        yield slice(None), slice(None)
        return
    tokens = max(1, BLOCK_ELEMENTS // C)
    images = max(1, tokens // max(1, N))
    for image in range(0, B, images):
        for token in range(0, N, tokens):
            yield slice(image, image + images), slice(token, token + tokens)


def _power(x: Tensor, exponent: float) -> Tensor:
    """Return `(c x) ** exponent`. The positive factor `c` of each token keeps high powers in the range of float32."""
    if exponent > 3:
        x = x / x.amax(dim=-1, keepdim=True)
    return x.pow(exponent)


def signed_parts(x: Tensor) -> Tensor:
    """Concatenate the positive and the negative part, `(..., d) -> (..., 2 d)`."""
    return torch.cat((F.relu(x), F.relu(-x)), dim=-1)


def positive_power(x: Tensor, exponent: Tensor) -> Tensor:
    """Return `x ** exponent` for non-negative `x`. The gradients of both arguments are finite at 0."""
    positive = x > 0
    return torch.where(positive, torch.where(positive, x, 1.).log().mul(exponent).exp(), 0.)


def focused_map(x: Tensor, focusing_factor: float) -> Tensor:
    """Sharpen the direction of each token and keep its norm, `f_p(x) = ||x|| / ||x ** p|| * x ** p`.

    Source: FLatten Transformer, eq. 6 and Proposition 1. The norm runs over the last axis, which in the official code
    holds the channels of all heads.

    Args:
        x: positive tokens `(..., C)`.
        focusing_factor: the power `p`; 1 is the identity.

    Returns:
        `(..., C)`.
    """
    powered = _power(x, focusing_factor)
    return powered * (_norm(x) / _norm(powered))


def focused_features(x_BNC: Tensor, rescale_C: Tensor, num_heads: int, *, focusing_factor: float, floor: float,
                     position_1NC: Tensor | None = None) -> Tensor:
    """Queries or keys of focused linear attention, `focused_map((relu(x + position) + floor) * rescale, p)`.

    On a CPU the tokens are processed in blocks that fit in the cache, and each head of the result is contiguous, so
    that matrix products do not copy it. Only the inputs and the result are saved for the backward pass. On one CPU
    thread with 96 channels, forward and backward take 15 to 18 ms for 8 images of 3,136 tokens (24 to 30 ms by
    `focused_map` and autograd), and 19 to 25 ms for 2 images of 16,000 tokens (39 to 46 ms). Smaller maps and the
    forward pass alone are not reliably faster.

    Args:
        x_BNC: projected tokens.
        rescale_C: positive factors of the channels.
        num_heads: heads `h`; must divide `C`. The norms run over the channels of all heads.
        focusing_factor: the power `p`.
        floor: positive; keeps tokens without a positive channel away from 0.
        position_1NC: added to the tokens of every image.

    Returns:
        `(B, h, N, d)`.
    """
    # A traced graph would contain every block, and the custom function has no forward-mode derivative.
    if (torch.compiler.is_compiling() or torch.jit.is_tracing()
            or any(unpack_dual(x).tangent is not None for x in (x_BNC, rescale_C, position_1NC) if x is not None)):
        placed_BNC = x_BNC if position_1NC is None else x_BNC + position_1NC
        positive_BNC = torch.addcmul(floor * rescale_C, F.relu(placed_BNC), rescale_C)
        return split_heads(focused_map(positive_BNC, focusing_factor), num_heads)
    return _FocusedFeatures.apply(x_BNC, position_1NC, rescale_C, num_heads, focusing_factor, floor)


class _FocusedFeatures(torch.autograd.Function):

    @staticmethod
    def forward(x: Tensor, position: Tensor | None, rescale: Tensor, num_heads: int, power: float,
                floor: float) -> Tensor:
        B, N, C = x.shape
        y_BhNd, offset = x.new_empty(B, num_heads, N, C // num_heads), floor * rescale
        y_BNhd = y_BhNd.transpose(1, 2)
        for block in token_blocks(x):
            positive = F.relu(_placed(x, position, block))
            positive = torch.addcmul(offset, positive, rescale, out=positive)
            powered = _power(positive, power)
            ratio = _norm(positive) / _norm(powered)
            torch.mul(powered.unflatten(-1, (num_heads, -1)), ratio.unsqueeze(-1), out=y_BNhd[block])
        return y_BhNd

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        x, position, rescale, _, ctx.power, ctx.floor = inputs
        ctx.save_for_backward(x, position, rescale, output)

    @staticmethod
    def backward(ctx: Any, grad_BhNd: Tensor) -> tuple:
        x, position, rescale, y_BhNd = ctx.saved_tensors
        grad_BNhd, y_BNhd = grad_BhNd.transpose(1, 2), y_BhNd.transpose(1, 2)
        grad_x, grad_rescale, offset = x.new_empty(x.shape), torch.zeros_like(rescale), ctx.floor * rescale
        for block in token_blocks(x):
            placed, f, grad_f = _placed(x, position, block), y_BNhd[block].flatten(2), grad_BNhd[block].flatten(2)
            r = torch.addcmul(offset, F.relu(placed), rescale)
            # With a = df . f / |r|^2, the gradient of r is a r + p (df - a f) f / r.
            a = torch.linalg.vecdot(grad_f, f).unsqueeze(-1) / _norm(r).square()
            grad_r = torch.addcmul(grad_f, f, a, value=-1).mul_(f).div_(r).mul_(ctx.power).addcmul_(r, a)
            grad_rescale = grad_rescale + (grad_r * r).sum((0, 1))
            grad_x[block] = torch.ops.aten.threshold_backward(grad_r * rescale, placed, 0)
        grad_position = None if position is None else grad_x.sum(0, keepdim=True)
        return grad_x, grad_position, grad_rescale / rescale, None, None, None


def _placed(x: Tensor, position: Tensor | None, block: tuple[slice, slice]) -> Tensor:
    return x[block] if position is None else x[block] + position[:, block[1]]


def _norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=-1, keepdim=True)


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


def cosformer_map(x_BhNd: Tensor, hw_shape: tuple[int, int]) -> Tensor:
    """Re-weight positive tokens so that their scores decrease with the distance along both axes of the map.

    The product of two re-weighted tokens at `(y, x)` and `(y', x')` is their original product times
    `cos(pi/2 (y - y') / H) cos(pi/2 (x - x') / W)`. cosFormer (Qin et al., 2022, eq. 10) has one axis and two features
    per channel. With two axes the product of both cosines is still positive and needs four features. Positions are
    fractions of the map, so queries and keys may come from maps of different sizes. Prefix tokens (a class token) are
    placed at the centre.

    Args:
        x_BhNd: positive tokens `(B, h, N, d)`, prefix tokens first, `N >= H W`.
        hw_shape: `(H, W)` of their map.

    Returns:
        `(B, h, N, 4 d)`.
    """
    H, W = hw_shape
    rows, cols = (torch.arange(side, device=x_BhNd.device, dtype=x_BhNd.dtype) / side for side in (H, W))
    y, x = rows[:, None].expand(H, W).flatten(), cols.expand(H, W).flatten()
    prefix = x_BhNd.new_full((x_BhNd.shape[-2] - H * W,), 0.5)
    y, x = (torch.cat((prefix, position))[:, None] * (math.pi / 2) for position in (y, x))
    weights = (y.cos() * x.cos(), y.cos() * x.sin(), y.sin() * x.cos(), y.sin() * x.sin())
    return torch.cat([x_BhNd * weight for weight in weights], dim=-1)
