"""RoIPool: maxima of rectangles, found in tables of the maxima of windows whose sides are powers of
two.
"""

from __future__ import annotations

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
    check_regions('roi_pool', input, rois, (pooled_height, pooled_width))
    height, width = input.shape[-2:]
    rois, broken = finite_regions(*single(rois), len(input))
    (y1, y2), (x1, x2), real = _bins(
        rois, (pooled_height, pooled_width), (height, width), spatial_scale
    )
    output.zero_()
    argmax.fill_(-1)
    filled = (y2 > y1)[:, :, None] & (x2 > x1)[:, None, :] & real[:, None, None]
    region, row, column = filled.nonzero(as_tuple=True)
    y1, y2, x1, x2 = y1[region, row], y2[region, row], x1[region, column], x2[region, column]
    image = rois[region, 0].long()
    tall, wide = (_power_below(sides) for sides in (y2 - y1, x2 - x1))
    # a NaN is never the largest
    values = input.permute(0, 2, 3, 1).nan_to_num(-torch.inf, torch.inf, -torch.inf)
    pixel = torch.arange(height * width, device=input.device, dtype=torch.int32).view(
        height, width, 1
    )
    strips = (values.contiguous(), pixel.expand(values.shape).contiguous())
    for high in range(int(tall.max()) + 1 if len(tall) else 0):
        windows = strips
        for broad in range(int(wide.max()) + 1):
            some = ((tall == high) & (wide == broad)).nonzero()[:, 0]
            if len(some):
                tops, lefts = (y1[some], y2[some] - 2**high), (x1[some], x2[some] - 2**broad)
                best = None
                for top in tops:
                    for left in lefts:
                        found = tuple(
                            take(table.flatten(0, 2), (image[some] * height + top) * width + left)
                            for table in windows
                        )
                        best = found if best is None else _larger(best, found)
                place = region[some], slice(None), row[some], column[some]
                output[place], argmax[place] = (
                    best[0],
                    best[1].to(argmax.dtype).masked_fill(best[0] == -torch.inf, -1),
                )
            windows = _doubled(windows, 2, 2**broad)
        strips = _doubled(strips, 1, 2**high)
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
    grad_input.view(-1).scatter_add_(0, pixel.flatten(), (grad_output * (argmax >= 0)).flatten())


def _bins(
    rois: Tensor, pooled: tuple[int, int], sides: tuple[int, int], spatial_scale: float
) -> tuple:
    """Return first and last + 1 row (K, PH) and column (K, PW) of the bins, and which regions have
    an area.
    """
    start, end = rois[:, [2, 1]] * spatial_scale, (rois[:, [4, 3]] + 1) * spatial_scale
    size, ranges = end - start, []
    for axis in range(2):
        step = size[:, axis, None] / pooled[axis]
        number = torch.arange(pooled[axis], device=rois.device, dtype=rois.dtype)
        first = (number * step + start[:, axis, None]).floor().clamp(0, sides[axis]).long()
        last = ((number + 1) * step + start[:, axis, None]).ceil().clamp(0, sides[axis]).long()
        ranges.append((first, last))
    return *ranges, (size > 0).all(1)


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
    ahead = tuple(table.narrow(axis, step, length - step) for table in windows)
    merged = _larger(tuple(table.narrow(axis, 0, length - step) for table in windows), ahead)
    return tuple(
        torch.cat((new, old.narrow(axis, length - step, step)), axis)
        for new, old in zip(merged, windows)
    )
