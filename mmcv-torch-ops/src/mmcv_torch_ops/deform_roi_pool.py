"""Deformable RoI pooling: RoIAlign whose bins are moved by learned offsets."""
from __future__ import annotations

import torch
from torch import Tensor

from mmcv_torch_ops.precision import single
from mmcv_torch_ops.roi_align import check_regions
from mmcv_torch_ops.sampling import (
    Points,
    Samples,
    finite_regions,
    pixel_rows,
    points_at,
    region_samples,
    similar_regions,
    take,
)


def deform_roi_pool_forward(input: Tensor, rois: Tensor, offset: Tensor, output: Tensor, pooled_height: int,
                            pooled_width: int, spatial_scale: float, sampling_ratio: int, gamma: float) -> None:
    """Write the mean of the samples of each moved bin into `output` (K, C, PH, PW).

    Source: Deformable Convolutional Networks (Dai et al., ICCV 2017, arXiv:1703.06211).

    Args:
        input: (N, C, H, W), and `rois` (K, 5): rows of (image, x1, y1, x2, y2).
        offset: (K, 2, PH, PW), x before y, in `gamma` times the size of the region; empty for none.

    A region with a coordinate that is not finite gives NaN, and no gradient.
    """
    pooled = (pooled_height, pooled_width)
    check_regions('deform_roi_pool', input, rois, pooled)
    input, rois, offset = single(input, rois, offset)
    rois, broken = finite_regions(rois)
    rows, image = pixel_rows(input), tuple(input.shape[2:])
    for some in similar_regions(rois, pooled, spatial_scale, sampling_ratio, True, input.shape[1]):
        samples, points = _moved(rois[some], offset[some] if offset.numel() else offset, pooled, image, spatial_scale,
                                 sampling_ratio, gamma)
        total = sum((take(rows, pixel) * weight[..., None]).sum((3, 4))
                    for pixel, weight in zip(points.pixel + _first(samples), points.weight))
        output[some] = (total / samples.count).permute(0, 3, 1, 2).to(output.dtype)
    output.masked_fill_(broken, torch.nan)


def deform_roi_pool_backward(grad_output: Tensor, input: Tensor, rois: Tensor, offset: Tensor, grad_input: Tensor,
                             grad_offset: Tensor, pooled_height: int, pooled_width: int, spatial_scale: float,
                             sampling_ratio: int, gamma: float) -> None:
    """Write the gradients of the map and of the offsets into `grad_input` and `grad_offset`, which are zero before.

    As in mmcv's kernel, the gradient of an offset extrapolates for samples up to one pixel outside of the map. There it
    is not the derivative of the value, which is constant across the border.
    """
    pooled, image = (pooled_height, pooled_width), tuple(input.shape[2:])
    input, rois, offset, grad_output = single(input, rois, offset, grad_output)
    rois, _ = finite_regions(rois)
    grad_output = grad_output.permute(0, 2, 3, 1)
    rows = pixel_rows(input)
    grad_rows = torch.zeros_like(rows)
    for some in similar_regions(rois, pooled, spatial_scale, sampling_ratio, True, input.shape[1]):
        samples, points = _moved(rois[some], offset[some] if offset.numel() else offset, pooled, image, spatial_scale,
                                 sampling_ratio, gamma)
        gradient = (grad_output[some] / samples.count)[:, :, :, None, None]
        pixels = points.pixel + _first(samples)
        for pixel, weight in zip(pixels, points.weight):
            grad_rows.index_add_(0, pixel.flatten(), (weight[..., None] * gradient).flatten(0, 4))
        if offset.numel():
            slopes = _slopes(points, [(take(rows, pixel) * gradient).sum(-1) for pixel in pixels])
            for axis, slope in enumerate(slopes):
                side = samples.size[:, 1 - axis, None, None]
                grad_offset[some, axis] = (gamma * side * slope.sum((3, 4))).to(grad_offset.dtype)
    grad_input.copy_(grad_rows.view(len(input), *image, -1).permute(0, 3, 1, 2))


def _moved(rois: Tensor, offset: Tensor, pooled: tuple[int, int], image: tuple[int, int], spatial_scale: float,
           sampling_ratio: int, gamma: float) -> tuple[Samples, Points]:
    """Return the sample points of regions, moved by their offsets, and the pixels around them."""
    samples = region_samples(rois, pooled, image, spatial_scale, sampling_ratio, aligned=True)
    shift = torch.zeros(2, 1, 1, 1, 1, 1, device=rois.device, dtype=rois.dtype)
    if offset.numel():
        moves = gamma * samples.size.flip(1)[:, :, None, None] * offset.view(len(rois), 2, *pooled)
        shift = moves.transpose(0, 1)[..., None, None]
    return samples, points_at(samples.y + shift[1], samples.x + shift[0], image, samples.real)


def _first(samples: Samples) -> Tensor:
    return samples.first[:, None, None, None, None]


def _slopes(points: Points, corners: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the derivatives by x and by y of the values interpolated between `corners`."""
    top_left, top_right, bottom_left, bottom_right = corners
    along_x = (bottom_right - bottom_left) * points.above + (top_right - top_left) * points.below
    along_y = (bottom_right - top_right) * points.left + (bottom_left - top_left) * points.right
    return along_x * points.counts, along_y * points.counts
