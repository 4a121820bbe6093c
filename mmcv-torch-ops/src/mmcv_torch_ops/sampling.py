"""Sample points of regions of interest, and bilinear interpolation at them, as mmcv's kernels define them."""
from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor


class Samples(NamedTuple):
    """Sample points of K regions, in PH x PW bins of up to GY x GX points.

    Attributes:
        batch: (K,), the image of each region.
        y, x: (K, PH or 1, PW or 1, GY) and (K, PH or 1, PW or 1, GX), rows and columns of the points of each bin.
        numbers: (K, 2), how many of the GY and GX points a region has; smaller regions have fewer.
        size: (K, 2), height and width of each region.
    """

    batch: Tensor
    y: Tensor
    x: Tensor
    numbers: Tensor
    size: Tensor

    @property
    def count(self) -> Tensor:
        """Number of points in a bin, (K, 1, 1, 1), at least 1."""
        return self.numbers.prod(1).clamp(min=1)[:, None, None, None]


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
        numbers, grid = torch.full_like(size, sampling_ratio), [sampling_ratio] * 2
    else:
        numbers = bins.ceil().clamp(min=0)
        grid = numbers.amax(0).long().tolist() if len(rois) else [0, 0]
    axes = []
    for axis in range(2):
        step = bins[:, axis, None, None]
        bin_start = torch.arange(pooled[axis], device=rois.device)[:, None] * step
        point = torch.arange(grid[axis], device=rois.device) + 0.5
        axes.append(start[:, axis, None, None] + bin_start + point * step / numbers[:, axis, None, None].clamp(min=1))
    return Samples(rois[:, 0].long(), axes[0][:, :, None], axes[1][:, None], numbers, size)


class Points(NamedTuple):
    """One point of each bin, with the four pixels around it: top left, top right, bottom left and bottom right.

    Attributes:
        y, x: (K, PH, PW), row and column in the map.
        pixel: (4, K, PH, PW), row * W + column of the pixels.
        weight: (4, K, PH, PW), weights of bilinear interpolation, 0 for points that are outside or not real.
        real: broadcasts to (K, PH, PW), whether the region has this point.
        inside: (K, PH, PW), whether it lies in the map or up to a pixel outside.
    """

    y: Tensor
    x: Tensor
    pixel: Tensor
    weight: Tensor
    real: Tensor
    inside: Tensor

    def values(self, rows: Tensor, first: Tensor) -> Tensor:
        """Return the interpolated pixels (K, PH, PW, C) of `rows`; `first` (K,) is the first row of each image."""
        pixel = self.pixel + first[:, None, None]
        result = take(rows, pixel[0]) * self.weight[0, ..., None]
        for corner in range(1, 4):
            result.addcmul_(take(rows, pixel[corner]), self.weight[corner, ..., None])
        return result


def each_point(samples: Samples, height: int, width: int) -> Iterator[Points]:
    """Yield the points of the bins, row by row: the first of every bin, the second of every bin, and so on."""
    for row in range(samples.y.shape[3]):
        for column in range(samples.x.shape[3]):
            y, x = torch.broadcast_tensors(samples.y[..., row], samples.x[..., column])
            real = (samples.numbers > samples.numbers.new_tensor([row, column])).all(1)[:, None, None]
            yield points_at(y, x, height, width, real)


def points_at(y: Tensor, x: Tensor, height: int, width: int, real: Tensor | None = None) -> Points:
    """Return points with their pixels and weights in a map of `height` x `width`.

    Points up to a pixel outside take the value at the border; farther ones count as 0, like those that are not `real`.
    """
    inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
    real = torch.ones_like(inside) if real is None else real
    top, bottom, dy = _neighbours(y, height)
    left, right, dx = _neighbours(x, width)
    pixel = torch.stack((top * width + left, top * width + right, bottom * width + left, bottom * width + right))
    weight = torch.stack(((1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx)) * (inside & real)
    return Points(y, x, pixel, weight, real, inside)


def pixel_rows(image: Tensor) -> Tensor:
    """Return the pixels of a map (N, C, H, W) as rows (N * H * W, C), from which `take` is fast."""
    return image.permute(0, 2, 3, 1).reshape(-1, image.shape[1])


def take(rows: Tensor, index: Tensor) -> Tensor:
    """Return `rows[index]`; on the CPU this is 30 times as fast as indexing."""
    return rows.index_select(0, index.flatten()).view(*index.shape, rows.shape[1])


def _neighbours(position: Tensor, side: int) -> tuple[Tensor, Tensor, Tensor]:
    low = position.clamp(0, side - 1).nan_to_num(0).long()
    fraction = (position.clamp(min=0) - low) * (low < side - 1)
    return low, (low + 1).clamp(max=side - 1), fraction
