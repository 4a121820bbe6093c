"""Windows of a token map."""
from __future__ import annotations

import torch
from einops import rearrange
from torch import Tensor


def window_partition(x: Tensor, window_size: tuple[int, int]) -> Tensor:
    """`(B, H, W, ...) -> (B * nW, h * w, ...)`, windows and the tokens inside them in row-major order.

    `H` and `W` must be multiples of the window `(h, w)`. One copy.
    """
    h, w = window_size
    return rearrange(x, 'B (rows h) (cols w) ... -> (B rows cols) (h w) ...', h=h, w=w)


def window_reverse(windows: Tensor, window_size: tuple[int, int], map_size: tuple[int, int]) -> Tensor:
    """The inverse of `window_partition`: `(B * nW, h * w, ...) -> (B, H, W, ...)` for `map_size = (H, W)`."""
    h, w = window_size
    return rearrange(windows, '(B rows cols) (h w) ... -> B (rows h) (cols w) ...', rows=map_size[0] // h,
                     cols=map_size[1] // w, h=h, w=w)


def _shift_regions(length: int, window: int, shift: int, device: torch.device) -> Tensor:
    position = torch.arange(length, device=device)
    return (position >= length - window).int() + (position >= length - shift).int()


def shifted_window_mask(map_size: tuple[int, int], window_size: tuple[int, int], shift: tuple[int, int],
                        device: torch.device) -> Tensor:
    """Which key a query may attend in windows of a rolled map: only those that were its neighbours before the roll.

    Source: Swin Transformer, sec. 3.2, fig. 4.

    Args:
        map_size: `(H, W)` of the padded map, multiples of `window_size`.
        window_size: `(h, w)`.
        shift: how far the map was rolled up and left.
        device: where the mask is needed.

    Returns:
        Boolean `(nW, h * w, h * w)`, true where attention is allowed.
    """
    rows = _shift_regions(map_size[0], window_size[0], shift[0], device)
    cols = _shift_regions(map_size[1], window_size[1], shift[1], device)
    regions = window_partition((rows[:, None] * 3 + cols)[None], window_size)
    return regions[:, :, None] == regions[:, None, :]


def padded_window_mask(hw_shape: tuple[int, int], map_size: tuple[int, int], window_size: tuple[int, int],
                       shift: tuple[int, int], device: torch.device) -> Tensor:
    """Which keys of each window are real tokens, for a map zero-padded from `hw_shape` to `map_size`, then rolled.

    Returns:
        Boolean `(nW, 1, h * w)`, false for padding.
    """
    rows = torch.arange(map_size[0], device=device).roll(-shift[0]) < hw_shape[0]
    cols = torch.arange(map_size[1], device=device).roll(-shift[1]) < hw_shape[1]
    return window_partition((rows[:, None] & cols)[None], window_size)[:, None]
