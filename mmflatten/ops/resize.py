"""Resizing of positional tables to another map or window, and pooling of maps to a few cells."""

from __future__ import annotations

from functools import lru_cache

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from mmflatten.ops.precision import no_autocast, upcast
from mmflatten.ops.sizes import is_exporting, is_open, operand, same_size

RESIZE_MODES = ('bilinear', 'bicubic', 'bicubic-antialias', 'bicubic-offset')
_OFFSET = 0.1


def resize_grid(
    table_1NC: Tensor, size: tuple[int, int], new_size: tuple[int, int], mode: str = 'bilinear'
) -> Tensor:
    """Resize a table with one row per token of a map, `(1, H * W, C) -> (1, H' * W', C)`.

    Where a bilinear gradient is computed, two products with small matrices resize. The gradient of
    PyTorch's operator adds atomically on a GPU, which is slow and not deterministic.

    Args:
        table_1NC: rows in row-major order of the map.
        size: `(H, W)` of the table.
        new_size: `(H', W')`.
        mode: one of `RESIZE_MODES`: 'bilinear', 'bicubic', 'bicubic-antialias' (timm, and DINOv2
            with registers) or 'bicubic-offset', DINOv2's rule without registers, which samples with
            the step `H / (H' + 0.1)`.
    """
    if same_size(size, new_size):
        return table_1NC
    if mode == 'bilinear' and torch.is_grad_enabled() and table_1NC.requires_grad:
        (table,) = upcast(table_1NC)
        rows_HH = _interpolation(size[0], new_size[0], table)
        cols_WW = _interpolation(size[1], new_size[1], table)
        with no_autocast(table):
            grid_HWC = (rows_HH @ table.reshape(size[0], -1)).unflatten(1, (size[1], -1))
            return (cols_WW @ grid_HWC).flatten(0, 1)[None].to(table_1NC.dtype)
    if mode in _EXPORTED and is_exporting():
        rows_HH, cols_WW = _EXPORTED[mode](size, new_size, table_1NC)
        grid_HWC = (rows_HH @ table_1NC.reshape(size[0], -1)).unflatten(1, (size[1], -1))
        return (cols_WW @ grid_HWC).flatten(0, 1)[None]
    # channels last, which is interpolated without a copy
    grid = table_1NC.unflatten(1, size).permute(0, 3, 1, 2)
    kind, _, rule = mode.partition('-')
    extent: dict = dict(size=new_size)
    if rule == 'offset':
        extent = dict(scale_factor=[(new + _OFFSET) / old for new, old in zip(new_size, size)])
    grid = F.interpolate(
        grid, mode=kind, align_corners=False, antialias=rule == 'antialias', **extent
    )
    return rearrange(grid, '1 C H W -> 1 (H W) C')


def _interpolation(length: int, new_length: int, like: Tensor) -> Tensor:
    """Weights of linear interpolation along an axis, `(new_length, length)`, which are kept outside
    of graphs.
    """
    if torch.compiler.is_compiling():
        return _weights.__wrapped__(length, new_length, like.device, like.dtype)
    with torch.inference_mode(False):  # autograd does not save tensors of this mode
        return _weights(length, new_length, like.device, like.dtype)


@lru_cache(512)
def _weights(length: int, new_length: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    unit = torch.eye(length, device=device, dtype=dtype)
    return F.interpolate(unit[None], size=new_length, mode='linear')[0].t()


def _antialias_weights(length: int, new_length: int, like: Tensor) -> Tensor:
    """Return the weights of bicubic interpolation with antialiasing, `(new_length, length)`.

    Keys' kernel with a = -0.5 is stretched by the step if that is above 1, as in PyTorch and
    Pillow. Source: Keys, Cubic Convolution Interpolation for Digital Image Processing (1981).
    """
    step = length / torch.as_tensor(operand(new_length), dtype=like.dtype, device=like.device)
    center = (torch.arange(new_length, dtype=like.dtype, device=like.device) + 0.5) * step
    place = torch.arange(length, dtype=like.dtype, device=like.device) + 0.5
    x = ((place - center[:, None]) / step.clamp(min=1)).abs()
    near = (1.5 * x - 2.5) * x**2 + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    weights = torch.where(x < 1, near, torch.where(x < 2, far, 0))
    return weights / weights.sum(dim=1, keepdim=True)


def _antialias_rows_and_columns(
    size: tuple[int, int], new_size: tuple[int, int], like: Tensor
) -> tuple[Tensor, Tensor]:
    return (
        _antialias_weights(size[0], new_size[0], like),
        _antialias_weights(size[1], new_size[1], like),
    )


def _offset_rows_and_columns(
    size: tuple[int, int], new_size: tuple[int, int], like: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the weights of rows and columns, without the offset for the size of the table."""
    height, width = (torch.as_tensor(operand(new), device=like.device) for new in new_size)
    is_same = (height == size[0]) & (width == size[1])
    offset = torch.where(is_same, 0.0, _OFFSET)
    return (
        _offset_weights(size[0], new_size[0], like, offset),
        _offset_weights(size[1], new_size[1], like, offset),
    )


def _offset_weights(length: int, new_length: int, like: Tensor, offset: Tensor) -> Tensor:
    """Return the weights of 'bicubic-offset', `(new_length, length)`.

    Keys' kernel with a = -0.75; places outside of the table take its nearest row, as in PyTorch.
    """
    new = torch.as_tensor(operand(new_length), dtype=like.dtype, device=like.device)
    place = torch.arange(new_length, dtype=like.dtype, device=like.device) + 0.5
    place = place * (length / (new + offset)) - 0.5
    first = place.floor()
    index = torch.arange(length, dtype=like.dtype, device=like.device)
    weights = like.new_zeros(1)
    for step in range(-1, 3):
        neighbour = first + step
        x = (place - neighbour).abs()
        near = (1.25 * x - 2.25) * x**2 + 1
        far = ((-0.75 * x + 3.75) * x - 6) * x + 3
        is_neighbour = neighbour.clamp(0, length - 1)[:, None] == index
        weights = weights + torch.where(is_neighbour, torch.where(x < 1, near, far)[:, None], 0)
    return weights


# In exported graphs: OpenVINO's cubic resizing ignores antialiasing, and a scale factor would fix
# the open sizes.
_EXPORTED = {
    'bicubic-antialias': _antialias_rows_and_columns,
    'bicubic-offset': _offset_rows_and_columns,
}


def resize_relative_position_bias(
    table_Lh: Tensor, window: tuple[int, int], new_window: tuple[int, int], mode: str = 'bicubic'
) -> Tensor:
    """Resize a table of relative offsets, `((2h-1)(2w-1), heads)`, from one window `(h, w)` to
    another.
    """
    size = (2 * window[0] - 1, 2 * window[1] - 1)
    new_size = (2 * new_window[0] - 1, 2 * new_window[1] - 1)
    return resize_grid(table_Lh[None], size, new_size, mode)[0]


def pool_cells(x_BCHW: Tensor, side: int) -> Tensor:
    """Average the map over a grid of `side x side` cells, `(B, C, side, side)`, as adaptive average
    pooling does.

    Adaptive pooling does not support symbolic sizes. They are pooled by two products with
    `cell_weights`.
    """
    if not is_open(*x_BCHW.shape[-2:]):
        return F.adaptive_avg_pool2d(x_BCHW, (side, side))
    rows_sH, cols_sW = (cell_weights(length, side, x_BCHW) for length in x_BCHW.shape[-2:])
    return rows_sH @ x_BCHW @ cols_sW.transpose(0, 1)


def cell_weights(length: int, side: int, like: Tensor) -> Tensor:
    """Averaging weights of the cells along one axis, `(side, length)`, in the type of `like`."""
    cell = torch.arange(side, device=like.device)
    position = torch.arange(length, device=like.device)
    first = cell * operand(length) // side
    last = ((cell + 1) * operand(length) + side - 1) // side
    inside = ((position >= first[:, None]) & (position < last[:, None])).to(like.dtype)
    return inside / inside.sum(dim=1, keepdim=True)
