"""RoIPool: maxima of rectangles, found in tables of the maxima of windows whose sides are powers of
two.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mmcv_torch_ops.precision import single
from mmcv_torch_ops.sampling import check_regions, finite_regions, take


def roi_pool_forward(
    input: Tensor,
    rois: Tensor,
    output: Tensor,
    argmax: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
) -> None:
    """Write the largest value of each bin into `output` (K, C, PH, PW), and its pixel into
    `argmax`, or -1.

    Source: Fast R-CNN (Girshick, ICCV 2015, arXiv:1504.08083). As in mmcv, a region includes its
    last pixel and its corners are not rounded; torchvision's `roi_pool` rounds them. Empty bins and
    regions without area give 0. Of equal values the first is taken, row by row. mmcv's kernel adds
    the gradient of a region without area to the first pixel of the map; here it is dropped. A
    region that cannot be pooled (see `finite_regions`) gives NaN, and no gradient.

    A rectangle is covered by four overlapping windows, whose sides are the largest powers of two
    that fit into it.

    Args:
        input: (N, C, H, W), and `rois` (K, 5): rows of (image, x1, y1, x2, y2).
    """
    pooled = (pooled_height, pooled_width)
    check_regions('roi_pool', input, rois, pooled)
    rois, broken = finite_regions(*single(rois), len(input))
    output.zero_()
    argmax.fill_(-1)
    bins = _filled_bins(rois, pooled, tuple(input.shape[2:]), spatial_scale)
    if len(bins.region):
        _write_maxima(bins, input, output, argmax)
    output.masked_fill_(broken, torch.nan)


def roi_pool_backward(
    grad_output: Tensor,
    rois: Tensor,
    argmax: Tensor,
    grad_input: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
) -> None:
    """Add the gradient of each bin to the pixel that was its largest, in `grad_input` (N, C, H,
    W).
    """
    _, channels, height, width = grad_input.shape
    rois, _ = finite_regions(*single(rois), len(grad_input))
    plane = rois[:, 0].long()[:, None] * channels + torch.arange(channels, device=rois.device)
    pixel = argmax.clamp(min=0) + (plane * height * width)[:, :, None, None]
    gradient = grad_output * (argmax >= 0)
    grad_input.view(-1).scatter_add_(0, pixel.flatten(), gradient.flatten())


class _Bins(NamedTuple):
    """Bins with pixels: rows y1 to y2 - 1 and columns x1 to x2 - 1 of an image.

    Attributes:
        region, row, column: (B,), places of the bins in the output.
        image, y1, y2, x1, x2: (B,).
    """

    region: Tensor
    row: Tensor
    column: Tensor
    image: Tensor
    y1: Tensor
    y2: Tensor
    x1: Tensor
    x2: Tensor

    def chosen(self, some: Tensor) -> _Bins:
        return _Bins(*(part[some] for part in self))


def _filled_bins(
    rois: Tensor, pooled: tuple[int, int], sides: tuple[int, int], spatial_scale: float
) -> _Bins:
    """Return the bins that have pixels, of regions that have an area."""
    start = rois[:, [2, 1]] * spatial_scale
    end = (rois[:, [4, 3]] + 1) * spatial_scale
    size = end - start
    y1, y2 = _ranges(start[:, 0], size[:, 0], pooled[0], sides[0])
    x1, x2 = _ranges(start[:, 1], size[:, 1], pooled[1], sides[1])
    has_area = (size > 0).all(1)
    filled = (y2 > y1)[:, :, None] & (x2 > x1)[:, None, :] & has_area[:, None, None]
    region, row, column = filled.nonzero(as_tuple=True)
    return _Bins(
        region=region,
        row=row,
        column=column,
        image=rois[region, 0].long(),
        y1=y1[region, row],
        y2=y2[region, row],
        x1=x1[region, column],
        x2=x2[region, column],
    )


def _ranges(start: Tensor, size: Tensor, pooled: int, side: int) -> tuple[Tensor, Tensor]:
    """Return the first and the last + 1 pixel of the bins along an axis, both (K, pooled)."""
    step = size[:, None] / pooled
    number = torch.arange(pooled, device=start.device, dtype=start.dtype)
    first = number * step + start[:, None]
    last = (number + 1) * step + start[:, None]
    return first.floor().clamp(0, side).long(), last.ceil().clamp(0, side).long()


def _write_maxima(bins: _Bins, input: Tensor, output: Tensor, argmax: Tensor) -> None:
    """Write the largest value and its pixel for each bin; there is at least one bin."""
    tall = _power_below(bins.y2 - bins.y1)
    wide = _power_below(bins.x2 - bins.x1)
    strips = _pixels(input)
    for high in range(int(tall.max()) + 1):
        windows = strips
        for broad in range(int(wide.max()) + 1):
            some = ((tall == high) & (wide == broad)).nonzero()[:, 0]
            if len(some):
                group = bins.chosen(some)
                value, pixel = _largest(windows, group, 2**high, 2**broad)
                place = group.region, slice(None), group.row, group.column
                output[place] = value
                argmax[place] = pixel.to(argmax.dtype).masked_fill(value == -torch.inf, -1)
            windows = _doubled(windows, 2, 2**broad)
        strips = _doubled(strips, 1, 2**high)


def _pixels(input: Tensor) -> tuple[Tensor, Tensor]:
    """Return the values of all pixels and their numbers, both (N, H, W, C)."""
    height, width = input.shape[-2:]
    # a NaN is never the largest
    values = input.permute(0, 2, 3, 1).nan_to_num(-torch.inf, torch.inf, -torch.inf)
    pixel = torch.arange(height * width, device=input.device, dtype=torch.int32)
    pixel = pixel.view(height, width, 1).expand(values.shape)
    return values.contiguous(), pixel.contiguous()


def _largest(
    windows: tuple[Tensor, Tensor], bins: _Bins, high: int, broad: int
) -> tuple[Tensor, Tensor]:
    """Return the largest values of bins and their pixels, by four windows of `high` x `broad`."""
    height, width = windows[0].shape[1:3]
    best = None
    for top in (bins.y1, bins.y2 - high):
        for left in (bins.x1, bins.x2 - broad):
            corner = (bins.image * height + top) * width + left
            found = tuple(take(table.flatten(0, 2), corner) for table in windows)
            best = found if best is None else _larger(best, found)
    return best


def _power_below(sides: Tensor) -> Tensor:
    """Return the exponents of the largest powers of two that are at most `sides`, which are
    positive integers.
    """
    return torch.frexp(sides.float()).exponent - 1


def _larger(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return the larger values with their pixels; of equal values that of the first pixel."""
    better = (second[0] > first[0]) | ((second[0] == first[0]) & (second[1] < first[1]))
    return tuple(torch.where(better, new, old) for old, new in zip(first, second))


def _doubled(windows: tuple[Tensor, Tensor], axis: int, step: int) -> tuple[Tensor, Tensor]:
    """Return maxima of windows twice as long along `axis`; the last ones keep their length."""
    length = windows[0].shape[axis]
    if step >= length:
        return windows
    here = tuple(table.narrow(axis, 0, length - step) for table in windows)
    ahead = tuple(table.narrow(axis, step, length - step) for table in windows)
    last = tuple(table.narrow(axis, length - step, step) for table in windows)
    merged = _larger(here, ahead)
    return tuple(torch.cat(parts, axis) for parts in zip(merged, last))
