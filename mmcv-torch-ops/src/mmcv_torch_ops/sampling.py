"""Sample points of regions of interest, and bilinear interpolation at them, as mmcv's kernels define them."""
from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Samples(NamedTuple):
    """Sample points of K regions, in PH x PW bins of up to GY x GX points.

    Attributes:
        batch: (K,), the image of each region.
        y, x: positions, of a shape that broadcasts to (K, PH, PW, GY, GX).
        used: (K, 1, 1, GY, GX). Smaller regions have fewer points; those beyond are not used.
        count: (K, 1, 1), number of points in a bin, at least 1.
        size: (K, 2), height and width of each region.
    """

    batch: Tensor
    y: Tensor
    x: Tensor
    used: Tensor
    count: Tensor
    size: Tensor


def region_samples(rois: Tensor, pooled: tuple[int, int], spatial_scale: float, sampling_ratio: int,
                   aligned: bool) -> Samples:
    """Return the sample points of `rois` (K, 5), rows of (image, x1, y1, x2, y2) in the pixels of the image.

    A region has `pooled` bins. A bin has `sampling_ratio` points in each direction, or, if that is 0, as many as it has
    pixels, rounded up. `aligned` moves the region by half a pixel; without it, a region is at least one pixel large.
    """
    corners = rois[:, 1:] * spatial_scale - (0.5 if aligned else 0.0)
    start, size = corners[:, [1, 0]], (corners[:, 2:] - corners[:, :2]).flip(1)
    if not aligned:
        size = size.clamp(min=1)
    bins = size / size.new_tensor(pooled)
    if sampling_ratio > 0:
        numbers = torch.full_like(size, sampling_ratio)
        grid = [sampling_ratio, sampling_ratio]
    else:
        numbers = bins.ceil().clamp(min=0)
        grid = numbers.amax(0).long().tolist() if len(rois) else [0, 0]
    axes, used = [], []
    for axis in range(2):
        bin_start = torch.arange(pooled[axis], device=rois.device)[:, None] * bins[:, axis, None, None]
        point = torch.arange(grid[axis], device=rois.device)
        number = numbers[:, axis, None, None].clamp(min=1)
        axes.append(start[:, axis, None, None] + bin_start + (point + 0.5) * bins[:, axis, None, None] / number)
        used.append(point < numbers[:, axis, None])
    return Samples(rois[:, 0].long(), axes[0][:, :, None, :, None], axes[1][:, None, :, None, :],
                   (used[0][:, :, None] & used[1][:, None, :])[:, None, None],
                   numbers.prod(1).clamp(min=1)[:, None, None], size)


def pixel_rows(image: Tensor) -> Tensor:
    """Return the pixels of a map (N, C, H, W) as rows (N * H * W, C), from which `take` is fast."""
    return image.permute(0, 2, 3, 1).reshape(-1, image.shape[1])


def take(rows: Tensor, index: Tensor) -> Tensor:
    """Return `rows[index]`; on the CPU this is 30 times as fast as indexing."""
    return rows.index_select(0, index.flatten()).view(*index.shape, rows.shape[1])


class Corners(NamedTuple):
    """The four pixels around each point, in the order top left, top right, bottom left, bottom right.

    Attributes:
        pixel: (4, ...), row * W + column of each pixel.
        weight: (4, ...), weights of bilinear interpolation, 0 for points outside of the map.
        top, bottom, left, right: rows and columns of the pixels.
        inside: which points are in the map, or up to a pixel outside.
    """

    pixel: Tensor
    weight: Tensor
    top: Tensor
    bottom: Tensor
    left: Tensor
    right: Tensor
    inside: Tensor


def corners_of(y: Tensor, x: Tensor, height: int, width: int) -> Corners:
    """Return pixels and weights of bilinear interpolation at (y, x).

    Points up to a pixel outside take the value at the border; farther ones count as 0.
    """
    y, x = torch.broadcast_tensors(y, x)
    inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
    top, bottom, dy = _neighbours(y, height)
    left, right, dx = _neighbours(x, width)
    pixel = torch.stack((top * width + left, top * width + right, bottom * width + left, bottom * width + right))
    weight = torch.stack(((1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx)) * inside
    return Corners(pixel, weight, top, bottom, left, right, inside)


def _neighbours(position: Tensor, side: int) -> tuple[Tensor, Tensor, Tensor]:
    low = position.clamp(0, side - 1).nan_to_num(0).long()
    fraction = (position.clamp(min=0) - low) * (low < side - 1)
    return low, (low + 1).clamp(max=side - 1), fraction
