"""Conversions between token tensors and maps."""

from __future__ import annotations

from collections.abc import Callable

import torch
from einops import rearrange
from torch import Tensor


def map_shape(x_BCHW: Tensor) -> tuple[int, int]:
    """`(H, W)` of a map."""
    return x_BCHW.shape[-2], x_BCHW.shape[-1]


def tokens_to_map(x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
    """`(B, H * W, C) -> (B, C, H, W)` as a channels-last view, without a copy."""
    return rearrange(x_BNC, 'B (H W) C -> B C H W', H=hw_shape[0], W=hw_shape[1])


def output_map(x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
    """`(B, H * W, C) -> (B, C, H, W)` contiguous in memory, as a backbone returns it.

    The copy is necessary because convolutions keep a channels-last layout, and mmcv's RoIAlign
    assumes contiguous tensors and would read wrong values.
    """
    return tokens_to_map(x_BNC, hw_shape).contiguous()


def map_to_tokens(x_BCHW: Tensor) -> Tensor:
    """`(B, C, H, W) -> (B, H * W, C)`, a view if the map is channels-last."""
    return rearrange(x_BCHW, 'B C H W -> B (H W) C')


def split_prefix(x_BNC: Tensor, hw_shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Split into prefix tokens (a class token) and tokens of the map, `(B, N - H * W, C)` and
    `(B, H * W, C)`.
    """
    prefix = x_BNC.shape[1] - hw_shape[0] * hw_shape[1]
    return x_BNC[:, :prefix], x_BNC[:, prefix:]


def join_prefix(prefix_BPC: Tensor, tokens_BNC: Tensor) -> Tensor:
    """Inverse of `split_prefix`. Copies only if there are prefix tokens."""
    return torch.cat((prefix_BPC, tokens_BNC), dim=1) if prefix_BPC.shape[1] else tokens_BNC


def on_map(
    function: Callable[[Tensor], Tensor], x_BNC: Tensor, hw_shape: tuple[int, int]
) -> Tensor:
    """Apply a function `(B, C, H, W) -> (B, C, H, W)` to the map of tokens; prefix tokens become
    zero.
    """
    prefix, tokens = split_prefix(x_BNC, hw_shape)
    y_BNC = map_to_tokens(function(tokens_to_map(tokens, hw_shape)))
    return join_prefix(torch.zeros_like(prefix), y_BNC) if prefix.shape[1] else y_BNC
