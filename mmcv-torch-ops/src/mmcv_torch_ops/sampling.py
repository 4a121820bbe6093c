"""Sample points of regions of interest, and bilinear interpolation at them, as mmcv's kernels
define them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

FAR = -1e6  # a coordinate outside of any map
LARGE = 4  # times the map: regions inside of the image are never as large
_LARGEST = 1e18  # the number of samples of a region with smaller coordinates fits into float32
_CHUNK = 2**24  # interpolated values at a time: 64 MiB in float32


def check_regions(operator: str, input: Tensor, rois: Tensor, pooled: tuple[int, int]) -> None:
    """Check the arguments that all operators on regions share.

    Raises:
        ValueError: a shape or a pooled size cannot be served; the message names it.
    """
    if input.dim() != 4:
        raise ValueError(
            f'{operator}: input must have shape (N, C, H, W), got {tuple(input.shape)}'
        )
    if len(rois) and not min(input.shape[2:]):
        raise ValueError(f'{operator}: input must have pixels, got shape {tuple(input.shape)}')
    if rois.dim() != 2 or rois.shape[1] != 5:
        raise ValueError(
            f'{operator}: rois must have shape (K, 5), rows of (image, x1, y1, x2, y2), '
            f'got {tuple(rois.shape)}'
        )
    if not all(isinstance(side, int) and side > 0 for side in pooled):
        raise ValueError(
            f'{operator}: the pooled size must be a pair of positive integers, got {pooled}'
        )


def finite_regions(rois: Tensor, images: int) -> tuple[Tensor, Tensor]:
    """Return regions (K, 5) and a mask (K, 1, 1, 1) of those that cannot be pooled.

    These have a coordinate that is not finite or beyond 1e18, or an image other than the `images`
    of the map. They are moved far out of the map, where they have no gradient. The kernels of
    torchvision and mmcv read outside of the map, crash or never end there.
    """
    fine = (rois.abs() < _LARGEST).all(1) & (rois[:, 0] > -1) & (rois[:, 0] < images)
    return moved_away(rois, ~fine), ~fine[:, None, None, None]


def moved_away(rois: Tensor, mask: Tensor) -> Tensor:
    """Return regions of which those of `mask` (K,) lie far outside of the map, in image 0."""
    away = (torch.arange(5, device=rois.device) > 0) * FAR  # 0 for the image, FAR for coordinates
    return torch.where(mask[:, None], away, rois)


def large_regions(
    rois: Tensor, image: tuple[int, int], spatial_scale: float, aligned: bool
) -> Tensor:
    """Return a mask (K,) of the regions that are more than `LARGE` times as high or as wide as the
    map.
    """
    _, size = starts_and_sizes(rois, spatial_scale, aligned)
    return (size[:, 0] > LARGE * image[0]) | (size[:, 1] > LARGE * image[1])


class Samples(NamedTuple):
    """Sample points of B bins, GY x GX of them.

    Attributes:
        first: (B, 1, 1), the first pixel of the image of each bin, in a table of the pixels of all
            images.
        y, x: (B, GY, 1) and (B, 1, GX), positions.
        real: (B, GY, GX), whether a bin has this point; smaller ones have fewer.
        count: (B, 1), number of points of a bin, at least 1. Points far outside of the map count,
            and may be left out.
    """

    first: Tensor
    y: Tensor
    x: Tensor
    real: Tensor
    count: Tensor


class Points(NamedTuple):
    """Points of a map, with the pixels around them: top left, top right, bottom left and bottom
    right.

    Attributes:
        pixel: (4, ...), row * W + column of the pixels.
        weight: (4, ...), weights of bilinear interpolation, 0 for points that do not count.
        above, below, left, right: (...), distances to the rows and columns of these pixels.
        counts: (...), whether a point is real, and in the map or up to a pixel outside.
    """

    pixel: Tensor
    weight: Tensor
    above: Tensor
    below: Tensor
    left: Tensor
    right: Tensor
    counts: Tensor


def bin_samples(
    rois: Tensor,
    pooled: tuple[int, int],
    image: tuple[int, int],
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
    channels: int,
    shift: Tensor | None = None,
) -> Iterator[tuple[Tensor, Samples]]:
    """Yield indices (B,) of bins that are computed together, of K * PH * PW, and their sample
    points.

    `rois` (K, 5) has rows of (image, x1, y1, x2, y2) in the pixels of the image. A bin has
    `sampling_ratio` points in each direction, or, if that is 0, as many as it has pixels, rounded
    up. `aligned` moves the region by half a pixel; without it, a region is at least one pixel
    large. `shift` (2, K * PH * PW) moves bins by y and x.

    The bins of a group have similar numbers of points, at most twice as many in each direction, so
    that a large one does not cost all others as many points as it has; and they are so few that
    their values fit into memory.
    """
    start, size = starts_and_sizes(rois, spatial_scale, aligned)
    bins_per_region = pooled[0] * pooled[1]
    place = torch.arange(len(rois) * bins_per_region, device=rois.device)
    region = place // bins_per_region
    row = place // pooled[1] % pooled[0]
    column = place % pooled[1]
    axes = []
    for axis, index in enumerate((row, column)):
        points = _axis(
            start=start[region, axis],
            size=size[region, axis],
            bins=index,
            pooled=pooled[axis],
            side=image[axis],
            sampling_ratio=sampling_ratio,
            shift=None if shift is None else shift[axis],
        )
        axes.append(points)
    rows, columns = axes
    for some in _groups(rows, columns, bins_per_region, channels):
        y, real_y = rows.points(some)
        x, real_x = columns.points(some)
        first = rois[region[some], 0].long() * image[0] * image[1]
        count = (rows.number[some] * columns.number[some]).clamp(min=1)
        samples = Samples(
            first=first[:, None, None],
            y=y[:, :, None],
            x=x[:, None],
            real=real_y[:, :, None] & real_x[:, None],
            count=count[:, None],
        )
        yield some, samples


def points_at(y: Tensor, x: Tensor, image: tuple[int, int], real: Tensor | None = None) -> Points:
    """Return the points of a map of `image` = (H, W) with the pixels around them.

    Points up to a pixel outside take the value at the border. Those farther out, or not `real`, do
    not count.
    """
    y, x = torch.broadcast_tensors(y, x)
    height, width = image
    counts = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
    if real is not None:
        counts &= real
    top, bottom, dy = _neighbours(y, height)
    left, right, dx = _neighbours(x, width)
    pixel = torch.stack(
        (top * width + left, top * width + right, bottom * width + left, bottom * width + right)
    )
    weight = torch.stack(((1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx))
    return Points(
        pixel=pixel,
        weight=weight.masked_fill_(~counts, 0),
        above=y - top,
        below=bottom - y,
        left=x - left,
        right=right - x,
        counts=counts,
    )


def pixel_rows(image: Tensor) -> Tensor:
    """Return the pixels of a map (N, C, H, W) as rows (N * H * W, C), from which `take` is fast."""
    return image.permute(0, 2, 3, 1).flatten(0, 2)


def take(rows: Tensor, index: Tensor) -> Tensor:
    """Return `rows[index]`; on the CPU this is 30 times as fast as indexing."""
    return rows.index_select(0, index.flatten()).view(*index.shape, rows.shape[1])


def starts_and_sizes(rois: Tensor, spatial_scale: float, aligned: bool) -> tuple[Tensor, Tensor]:
    """Return top left corner (y, x) and size (height, width) of regions in the map, each (K, 2)."""
    corners = rois[:, 1:] * spatial_scale - (0.5 if aligned else 0.0)
    start = corners[:, :2].flip(1)
    size = (corners[:, 2:] - corners[:, :2]).flip(1)
    if not aligned:
        size = size.clamp(min=1)
    return start, size


class _Axis(NamedTuple):
    """The sample points of B bins along one axis: `used` of `number` points from `corner` on, moved
    by `shift`.
    """

    corner: Tensor
    step: Tensor
    number: Tensor
    used: Tensor
    shift: Tensor

    def points(self, some: Tensor) -> tuple[Tensor, Tensor]:
        """Return the positions of some bins, and whether they are real, both (B, G)."""
        corner, step, number, used, shift = (part[some, None] for part in self)
        point = torch.arange(int(used.max()), device=some.device)
        # a bin with fewer points repeats its last one, so none reads another's pixels
        own = point.minimum(used - 1)
        return corner + (own + 0.5) * step / number.clamp(min=1) + shift, point < used


def _axis(
    start: Tensor,
    size: Tensor,
    bins: Tensor,
    pooled: int,
    side: int,
    sampling_ratio: int,
    shift: Tensor | None,
) -> _Axis:
    """Return the sample points of bins along an axis.

    A region that is more than `LARGE` times as large as the map uses those in the map and some
    beside it, which stand for all others: the value of each of them is 0.
    """
    step = size / pooled
    corner = start + bins * step
    if shift is None:
        shift = torch.zeros_like(step)
    if sampling_ratio > 0:
        number = torch.full_like(step, sampling_ratio)
        return _Axis(corner=corner, step=step, number=number, used=number, shift=shift)
    number = step.ceil().clamp(min=0)
    large = size > LARGE * side
    if not large.any():
        return _Axis(corner=corner, step=step, number=number, used=number, shift=shift)

    spacing = step.double() / number.clamp(min=1)
    place = corner.double() + shift
    # The numbers of a point before the map and of one behind it.
    before = ((-1 - place) / spacing - 1.5).floor().minimum(number - 1).clamp(min=0)
    behind = ((side - place) / spacing + 1.5).ceil().minimum(number).maximum(before + 1)
    return _Axis(
        corner=torch.where(large, place + before * spacing, corner).to(step.dtype),
        step=step,
        number=number,
        used=torch.where(large, behind - before, number).to(step.dtype),
        shift=torch.where(large, 0, shift),
    )


def _groups(rows: _Axis, columns: _Axis, bins_per_region: int, channels: int) -> Iterator[Tensor]:
    """Yield the indices of bins that are computed together, as `bin_samples` describes them."""
    # The numbers of points in each direction, rounded up to powers of two.
    high, broad = (axis.used.clamp(min=1).log2().ceil().long() for axis in (rows, columns))
    kinds = 64 * high + broad
    for kind in kinds.unique().tolist():
        points = 2 ** (kind // 64 + kind % 64)
        number = max(1, _CHUNK // (points * max(1, channels)))
        if number > bins_per_region:
            number -= number % bins_per_region  # whole regions
        yield from (kinds == kind).nonzero()[:, 0].split(number)


def _neighbours(position: Tensor, side: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the pixels before and after each position, and its distance to the one before."""
    before = position.clamp(0, side - 1).long()
    distance = (position.clamp(min=0) - before) * (before < side - 1)
    return before, (before + 1).clamp(max=side - 1), distance
