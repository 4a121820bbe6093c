"""Padding at the top and on the right as in PSMNet, which keeps the left edge where disparities begin."""
from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def pad_top_right(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Zero-pad `(..., h, w)` at the top and on the right to `size` = (H, W)."""
    return F.pad(x, (0, size[1] - x.shape[-1], size[0] - x.shape[-2], 0))


def crop_top_right(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Crop `(..., H, W)` to `size` at the top and on the right, the inverse of `pad_top_right`."""
    return x[..., x.shape[-2] - size[0]:, :size[1]]
