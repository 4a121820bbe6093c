"""Padding above and to the right, as PSMNet pads: the left edge, where disparities begin, stays where it is."""
from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def pad_top_right(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Pad `(..., h, w)` with zeros above and to the right, to `size` = (H, W)."""
    return F.pad(x, (0, size[1] - x.shape[-1], size[0] - x.shape[-2], 0))


def crop_top_right(x: Tensor, size: tuple[int, int]) -> Tensor:
    """The inverse of `pad_top_right`: `(..., H, W)` without the rows above and the columns to the right of `size`."""
    return x[..., x.shape[-2] - size[0]:, :size[1]]
