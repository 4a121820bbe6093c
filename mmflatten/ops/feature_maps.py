"""Feature maps that make the scores of linear attention positive, and their parts."""
from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual

from mmflatten.ops.blocks import token_blocks
from mmflatten.ops.heads import split_heads


def _power(x: Tensor, exponent: float) -> Tensor:
    """`(c x) ** exponent` for a positive `c` per token that keeps high powers inside the range of float32."""
    if exponent > 3:
        x = x / x.amax(dim=-1, keepdim=True)
    return x.pow(exponent)


def signed_parts(x: Tensor) -> Tensor:
    """Positive and negative part side by side, `(..., d) -> (..., 2 d)`."""
    return torch.cat((F.relu(x), F.relu(-x)), dim=-1)


def positive_power(x: Tensor, exponent: Tensor) -> Tensor:
    """`x ** exponent` of numbers that are not negative, with finite gradients of both at 0."""
    positive = x > 0
    return torch.where(positive, torch.where(positive, x, 1.).log().mul(exponent).exp(), 0.)


def focused_map(x: Tensor, focusing_factor: float) -> Tensor:
    """`f_p(x) = ||x|| / ||x ** p|| * x ** p`: keeps the norm of a token and sharpens its direction.

    Source: FLatten Transformer, eq. 6 and Proposition 1. The norm runs over the last axis, which in the official code
    holds all the heads together.

    Args:
        x: positive tokens `(..., C)`.
        focusing_factor: the power `p`; 1 changes nothing.

    Returns:
        `(..., C)`.
    """
    powered = _power(x, focusing_factor)
    return powered * (_norm(x) / _norm(powered))


def focused_features(x_BNC: Tensor, rescale_C: Tensor, num_heads: int, *, focusing_factor: float, floor: float,
                     position_1NC: Tensor | None = None) -> Tensor:
    """`focused_map((relu(x + position) + floor) * rescale, p)`, in heads: what focused linear attention multiplies.

    On a CPU this works on as many tokens at a time as stay in its cache, and each head of the result lies in one piece,
    so that no product copies it. For the backward pass it keeps its inputs and its result alone.

    Args:
        x_BNC: projected tokens.
        rescale_C: positive factors of the channels.
        num_heads: heads `h`; must divide `C`. The norms run over all of them.
        focusing_factor: the power `p`.
        floor: positive; keeps a token without a positive channel away from 0.
        position_1NC: added to the tokens of every image.

    Returns:
        `(B, h, N, d)`.
    """
    # Blocks would be written into a graph, and have no derivative in forward mode.
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
            # With a = df . f / |r|^2: the gradient of r is a r + p (df - a f) f / r.
            share = torch.linalg.vecdot(grad_f, f).unsqueeze(-1) / _norm(r).square()
            across = torch.addcmul(grad_f, f, share, value=-1).mul_(f).div_(r).mul_(ctx.power)
            grad_r = across.addcmul_(r, share)
            grad_rescale = grad_rescale + (grad_r * r).sum((0, 1))
            grad_x[block] = torch.ops.aten.threshold_backward(grad_r * rescale, placed, 0)
        grad_position = None if position is None else grad_x.sum(0, keepdim=True)
        return grad_x, grad_position, grad_rescale / rescale, None, None, None


def _placed(x: Tensor, position: Tensor | None, block: tuple[slice, slice]) -> Tensor:
    return x[block] if position is None else x[block] + position[:, block[1]]


def _norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=-1, keepdim=True)
