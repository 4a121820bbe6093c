"""Windows of a token map."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from mmflatten.ops.sizes import contiguous, is_open, operand, same_size

# Distances by which a map is rolled along rows and columns: integers, or tensors for symbolic
# sizes.
Shift = tuple[Any, Any]


def window_partition(x: Tensor, window_size: tuple[int, int]) -> Tensor:
    """Split a map into windows, `(B, H, W, ...) -> (B * nW, h * w, ...)`, windows and tokens in
    row-major order.

    `H` and `W` must be multiples of the window `(h, w)`. Copies once.
    """
    h, w = window_size
    x = rearrange(x, 'B (rows h) (cols w) ... -> B rows cols h w ...', h=h, w=w)
    return contiguous(x).flatten(3, 4).flatten(0, 2)


def window_reverse(
    windows: Tensor, window_size: tuple[int, int], map_size: tuple[int, int]
) -> Tensor:
    """Inverse of `window_partition`, `(B * nW, h * w, ...) -> (B, H, W, ...)` for
    `map_size = (H, W)`.
    """
    h, w = window_size
    x = rearrange(
        windows,
        '(B rows cols) (h w) ... -> B rows h cols w ...',
        rows=map_size[0] // h,
        cols=map_size[1] // w,
        h=h,
        w=w,
    )
    return contiguous(x).flatten(3, 4).flatten(1, 2)


def pad_and_roll(x_BHWC: Tensor, map_size: tuple[int, int], shift: Shift | None = None) -> Tensor:
    """Zero-pad a map at the right and bottom to `map_size`, then roll it up and left by `shift`.

    Any number of axes may follow the two of the map. With symbolic sizes, `shift` may be tensors.
    """
    H, W = x_BHWC.shape[1:3]
    if not same_size((H, W), map_size):
        # `F.pad` lists the axes from the last one on.
        after_map = (0, 0) * (x_BHWC.dim() - 3)
        x_BHWC = F.pad(x_BHWC, (*after_map, 0, map_size[1] - W, 0, map_size[0] - H))
    if shift is None:
        return x_BHWC
    return _roll_and_crop(x_BHWC, (-shift[0], -shift[1]), map_size)


def roll_and_crop(x_BHWC: Tensor, hw_shape: tuple[int, int], shift: Shift | None = None) -> Tensor:
    """Inverse of `pad_and_roll`: roll back, then crop to `hw_shape`."""
    return _roll_and_crop(x_BHWC, (0, 0) if shift is None else shift, hw_shape)


def _roll_and_crop(x_BHWC: Tensor, shift: Shift, size: tuple[int, int]) -> Tensor:
    if not is_open(*size):
        if any(shift):
            x_BHWC = x_BHWC.roll(shift, dims=(1, 2))
        return x_BHWC[:, : size[0], : size[1]]
    for dim, (distance, length) in enumerate(zip(shift, size), 1):
        position = torch.arange(length, device=x_BHWC.device)
        x_BHWC = x_BHWC.index_select(dim, (position - distance) % operand(x_BHWC.shape[dim]))
    return x_BHWC


def shifted_window_mask(
    map_size: tuple[int, int], window_size: tuple[int, int], shift: Shift, device: torch.device
) -> Tensor:
    """Mask of the keys that each query of a rolled map may attend to: its neighbours before the
    roll.

    Source: Swin Transformer, sec. 3.2, fig. 4.

    Args:
        map_size: `(H, W)` of the padded map, multiples of `window_size`.
        window_size: `(h, w)`.
        shift: distance by which the map was rolled up and left.
        device: device of the mask.

    Returns:
        Boolean `(nW, h * w, h * w)`, True where attention is allowed.
    """
    rows = _shift_regions(map_size[0], window_size[0], shift[0], device)
    cols = _shift_regions(map_size[1], window_size[1], shift[1], device)
    regions = window_partition((rows[:, None] * 3 + cols)[None], window_size)
    return regions[:, :, None] == regions[:, None, :]


def _shift_regions(length: int, window: int, shift: int | Tensor, device: torch.device) -> Tensor:
    """Number of the region of each position of a rolled axis; windows may contain two."""
    position = torch.arange(length, device=device)
    return (position >= length - window).int() + (position >= length - shift).int()


def padded_window_mask(
    hw_shape: tuple[int, int],
    map_size: tuple[int, int],
    window_size: tuple[int, int],
    shift: Shift,
    device: torch.device,
) -> Tensor:
    """Mask of the keys of each window that are not padding, on a map padded to `map_size` and
    rolled.

    Returns:
        Boolean `(nW, 1, h * w)`, False for padding.
    """
    rows = _is_real(map_size[0], hw_shape[0], shift[0], device)
    cols = _is_real(map_size[1], hw_shape[1], shift[1], device)
    return window_partition((rows[:, None] & cols)[None], window_size)[:, None]


def _is_real(length: int, real: int, shift: int | Tensor, device: torch.device) -> Tensor:
    """Mask of the positions of a rolled axis that are not padding."""
    return (torch.arange(length, device=device) + shift) % operand(length) < real
