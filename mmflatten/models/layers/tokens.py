"""Token tensors as maps, and back."""
from __future__ import annotations

from torch import Tensor


def tokens_to_map(x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
    """`(B, H * W, C) -> (B, C, H, W)` as a channels-last view, without a copy."""
    return x_BNC.unflatten(1, hw_shape).permute(0, 3, 1, 2)


def output_map(x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
    """`(B, H * W, C) -> (B, C, H, W)` contiguous in memory, as a backbone returns it.

    The copy is needed: convolutions hand a channels-last layout on, and mmcv's RoIAlign takes any tensor for a
    contiguous one and reads the wrong values.
    """
    return tokens_to_map(x_BNC, hw_shape).contiguous()


def map_to_tokens(x_BCHW: Tensor) -> Tensor:
    """`(B, C, H, W) -> (B, H * W, C)`; a view where the map is channels-last."""
    return x_BCHW.flatten(2).transpose(1, 2)


def split_prefix(x_BNC: Tensor, hw_shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Tokens before the map (a class token) and tokens of the map: `(B, N - H * W, C)` and `(B, H * W, C)`."""
    prefix = x_BNC.shape[1] - hw_shape[0] * hw_shape[1]
    return x_BNC[:, :prefix], x_BNC[:, prefix:]
