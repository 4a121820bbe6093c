"""cosFormer features of a map."""
from __future__ import annotations

import math

import torch
from torch import Tensor


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
