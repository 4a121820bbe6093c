"""Deformable RoI pooling: RoIAlign whose bins are moved by learned offsets."""

from __future__ import annotations

import torch
from torch import Tensor

from mmcv_torch_ops.precision import single
from mmcv_torch_ops.sampling import (
    FAR,
    Points,
    bin_samples,
    check_regions,
    finite_regions,
    pixel_rows,
    points_at,
    starts_and_sizes,
    take,
)


def deform_roi_pool_forward(
    input: Tensor,
    rois: Tensor,
    offset: Tensor,
    output: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    gamma: float,
) -> None:
    """Write the mean of the samples of each moved bin into `output` (K, C, PH, PW).

    Source: Deformable Convolutional Networks (Dai et al., ICCV 2017, arXiv:1703.06211).

    Args:
        input: (N, C, H, W), and `rois` (K, 5): rows of (image, x1, y1, x2, y2).
        offset: (K, 2, PH, PW), x before y, in `gamma` times the size of the region; empty for none.

    A region that cannot be pooled (see `finite_regions`), and a bin with an offset that is not
    finite, give NaN and no gradient.
    """
    pooled = (pooled_height, pooled_width)
    check_regions('deform_roi_pool', input, rois, pooled)
    input, rois, offset = single(input, rois, offset)
    rois, broken = finite_regions(rois, len(input))
    shift, lost = _shift(rois, offset, pooled, spatial_scale, gamma)
    means = mean_samples(
        pixel_rows(input),
        rois,
        pooled=pooled,
        image=tuple(input.shape[2:]),
        spatial_scale=spatial_scale,
        sampling_ratio=sampling_ratio,
        aligned=True,
        shift=shift,
    )
    output.copy_(means)
    output.masked_fill_(broken | lost, torch.nan)


def deform_roi_pool_backward(
    grad_output: Tensor,
    input: Tensor,
    rois: Tensor,
    offset: Tensor,
    grad_input: Tensor,
    grad_offset: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    gamma: float,
) -> None:
    """Write the gradients of the map and of the offsets into `grad_input` and `grad_offset`, which
    are zero before.

    As in mmcv's kernel, the gradient of an offset extrapolates for samples up to one pixel outside
    of the map. There it is not the derivative of the value, which is constant across the border.
    """
    image = tuple(input.shape[2:])
    pooled = (pooled_height, pooled_width)
    input, rois, offset, grad_output = single(input, rois, offset, grad_output)
    rois, _ = finite_regions(rois, len(input))
    shift, lost = _shift(rois, offset, pooled, spatial_scale, gamma)
    rows = pixel_rows(input)
    grad_rows = torch.zeros_like(rows)
    slopes = add_mean_gradients(
        grad_rows,
        grad_output,
        rois,
        image=image,
        spatial_scale=spatial_scale,
        sampling_ratio=sampling_ratio,
        aligned=True,
        shift=shift,
        rows=rows,
    )
    if offset.numel():
        slopes = slopes.view(2, len(rois), *pooled).transpose(0, 1).flip(1)
        grad_offset.copy_((_sides(rois, spatial_scale, gamma) * slopes).masked_fill(lost, 0))
    grad_input.copy_(grad_rows.view(len(input), *image, rows.shape[1]).permute(0, 3, 1, 2))


def mean_samples(
    rows: Tensor,
    rois: Tensor,
    pooled: tuple[int, int],
    image: tuple[int, int],
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
    shift: Tensor | None = None,
) -> Tensor:
    """Return the mean of the samples of each bin, (K, C, PH, PW); `rows` are the pixels of the
    maps, (N * H * W, C).
    """
    means = rows.new_zeros(len(rois) * pooled[0] * pooled[1], rows.shape[1])
    groups = bin_samples(
        rois,
        pooled=pooled,
        image=image,
        spatial_scale=spatial_scale,
        sampling_ratio=sampling_ratio,
        aligned=aligned,
        channels=rows.shape[1],
        shift=shift,
    )
    for some, samples in groups:
        points = points_at(samples.y, samples.x, image, samples.real)
        total = sum(
            (take(rows, pixel) * weight[..., None]).sum((1, 2))
            for pixel, weight in zip(points.pixel + samples.first, points.weight)
        )
        means[some] = total / samples.count
    return means.view(len(rois), *pooled, rows.shape[1]).permute(0, 3, 1, 2)


def add_mean_gradients(
    grad_rows: Tensor,
    grad_output: Tensor,
    rois: Tensor,
    image: tuple[int, int],
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
    shift: Tensor | None = None,
    rows: Tensor | None = None,
) -> Tensor:
    """Add the gradients of `mean_samples` to `grad_rows`. Returns those of `shift`, if there is
    one.
    """
    flat = grad_output.permute(0, 2, 3, 1).flatten(0, 2)
    grad_shift = flat.new_zeros(2, len(flat))
    groups = bin_samples(
        rois,
        pooled=tuple(grad_output.shape[2:]),
        image=image,
        spatial_scale=spatial_scale,
        sampling_ratio=sampling_ratio,
        aligned=aligned,
        channels=flat.shape[1],
        shift=shift,
    )
    for some, samples in groups:
        points = points_at(samples.y, samples.x, image, samples.real)
        gradient = (flat[some] / samples.count)[:, None, None]
        pixels = points.pixel + samples.first
        for pixel, weight in zip(pixels, points.weight):
            grad_rows.index_add_(0, pixel.flatten(), (weight[..., None] * gradient).flatten(0, 2))
        if shift is not None:
            corners = [(take(rows, pixel) * gradient).sum(-1) for pixel in pixels]
            along_y, along_x = _slopes(points, corners)
            grad_shift[:, some] = torch.stack((along_y.sum((1, 2)), along_x.sum((1, 2))))
    return grad_shift


def _shift(
    rois: Tensor, offset: Tensor, pooled: tuple[int, int], spatial_scale: float, gamma: float
) -> tuple[Tensor, Tensor]:
    """Return by how much offsets (K, 2, PH, PW), x before y, move each bin: (2, K * PH * PW), y
    before x.

    Bins whose offset is not finite move far out of the map. Their mask (K, 1, PH, PW) is returned,
    too.
    """
    moves = rois.new_zeros(len(rois), 2, *pooled)
    if offset.numel():
        moves = _sides(rois, spatial_scale, gamma) * offset
    lost = ~moves.isfinite().all(1, keepdim=True)
    return moves.masked_fill(lost, FAR).transpose(0, 1).flatten(1).flip(0), lost


def _sides(rois: Tensor, spatial_scale: float, gamma: float) -> Tensor:
    """Return `gamma` times width and height of regions, (K, 2, 1, 1)."""
    _, size = starts_and_sizes(rois, spatial_scale, aligned=True)
    return gamma * size.flip(1)[:, :, None, None]


def _slopes(points: Points, corners: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the derivatives by y and by x of the values interpolated between `corners`."""
    top_left, top_right, bottom_left, bottom_right = corners
    along_x = (bottom_right - bottom_left) * points.above + (top_right - top_left) * points.below
    along_y = (bottom_right - top_right) * points.left + (bottom_left - top_left) * points.right
    return along_y.masked_fill(~points.counts, 0), along_x.masked_fill(~points.counts, 0)
