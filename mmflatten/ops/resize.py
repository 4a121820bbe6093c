"""Resizing of positional tables to another map or window, and pooling of maps to a few cells."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from mmflatten.ops.sizes import is_open, operand, same_size


def resize_grid(table_1NC: Tensor, size: tuple[int, int], new_size: tuple[int, int], mode: str = 'bilinear') -> Tensor:
    """Resize a table with one row per token of a map, `(1, H * W, C) -> (1, H' * W', C)`.

    Args:
        table_1NC: rows in row-major order of the map.
        size: `(H, W)` of the table.
        new_size: `(H', W')`.
        mode: 'bilinear' (in `forward`, for any size) or 'bicubic' (for checkpoints of another image size).
    """
    if same_size(size, new_size):
        return table_1NC
    grid = table_1NC.unflatten(1, size).permute(0, 3, 1, 2)  # channels last, which is interpolated without a copy
    grid = F.interpolate(grid, size=new_size, mode=mode, align_corners=False)
    return rearrange(grid, '1 C H W -> 1 (H W) C')


def resize_relative_position_bias(table_Lh: Tensor, window: tuple[int, int], new_window: tuple[int, int],
                                  mode: str = 'bicubic') -> Tensor:
    """Resize a table of relative offsets, `((2h-1)(2w-1), heads)`, from one window `(h, w)` to another."""
    size = (2 * window[0] - 1, 2 * window[1] - 1)
    new_size = (2 * new_window[0] - 1, 2 * new_window[1] - 1)
    return resize_grid(table_Lh[None], size, new_size, mode)[0]


def pool_cells(x_BCHW: Tensor, side: int) -> Tensor:
    """Average the map over a grid of `side x side` cells, `(B, C, side, side)`, as adaptive average pooling does.

    Adaptive pooling does not support symbolic sizes. They are pooled by two products with `cell_weights`.
    """
    if not is_open(*x_BCHW.shape[-2:]):
        return F.adaptive_avg_pool2d(x_BCHW, (side, side))
    rows_sH, cols_sW = (cell_weights(length, side, x_BCHW) for length in x_BCHW.shape[-2:])
    return rows_sH @ x_BCHW @ cols_sW.transpose(0, 1)


def cell_weights(length: int, side: int, like: Tensor) -> Tensor:
    """Averaging weights of the cells along one axis, `(side, length)`, in the type of `like`."""
    cell, position = (torch.arange(number, device=like.device) for number in (side, length))
    first = cell * operand(length) // side
    last = ((cell + 1) * operand(length) + side - 1) // side
    inside = ((position >= first[:, None]) & (position < last[:, None])).to(like.dtype)
    return inside / inside.sum(dim=1, keepdim=True)
