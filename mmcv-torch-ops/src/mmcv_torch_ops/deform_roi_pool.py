"""Deformable RoI pooling: RoIAlign whose bins are moved by learned offsets."""
from __future__ import annotations

import torch
from torch import Tensor

from mmcv_torch_ops.roi_align import check_regions
from mmcv_torch_ops.sampling import Points, Samples, each_point, pixel_rows, region_samples, take


def deform_roi_pool_forward(input: Tensor, rois: Tensor, offset: Tensor, output: Tensor, pooled_height: int,
                            pooled_width: int, spatial_scale: float, sampling_ratio: int, gamma: float) -> None:
    """Write the mean of the samples of each moved bin into `output` (K, C, PH, PW).

    Source: Deformable Convolutional Networks (Dai et al., ICCV 2017, arXiv:1703.06211).

    Args:
        input: (N, C, H, W), and `rois` (K, 5): rows of (image, x1, y1, x2, y2).
        offset: (K, 2, PH, PW), x before y, in `gamma` times the size of the region; empty for none.
    """
    check_regions('deform_roi_pool', input, rois, (pooled_height, pooled_width))
    height, width = input.shape[-2:]
    samples = _moved(rois, offset, (pooled_height, pooled_width), spatial_scale, sampling_ratio, gamma)
    rows, first = pixel_rows(input), samples.batch * height * width
    total = input.new_zeros(len(rois), pooled_height, pooled_width, input.shape[1])
    for point in each_point(samples, height, width):
        total += point.values(rows, first)
    output.copy_((total / samples.count).permute(0, 3, 1, 2))


def deform_roi_pool_backward(grad_output: Tensor, input: Tensor, rois: Tensor, offset: Tensor, grad_input: Tensor,
                             grad_offset: Tensor, pooled_height: int, pooled_width: int, spatial_scale: float,
                             sampling_ratio: int, gamma: float) -> None:
    """Write the gradients of the map and of the offsets into `grad_input` and `grad_offset`, which are zero before.

    As in mmcv's kernel, the gradient of an offset extrapolates for samples up to one pixel outside of the map. There it
    is not the derivative of the value, which is constant across the border.
    """
    height, width = input.shape[-2:]
    samples = _moved(rois, offset, (pooled_height, pooled_width), spatial_scale, sampling_ratio, gamma)
    rows, first = pixel_rows(input), (samples.batch * height * width)[:, None, None]
    gradient, grad_rows = grad_output.permute(0, 2, 3, 1) / samples.count, torch.zeros_like(rows)
    along_y, along_x = (input.new_zeros(len(rois), pooled_height, pooled_width) for _ in range(2))
    for point in each_point(samples, height, width):
        for pixel, weight in zip(point.pixel + first, point.weight):
            grad_rows.index_add_(0, pixel.flatten(), (weight[..., None] * gradient).flatten(0, 2))
        if offset.numel():
            slope_y, slope_x = _slopes(point, [(take(rows, pixel) * gradient).sum(-1) for pixel in point.pixel + first],
                                       width)
            along_y += slope_y
            along_x += slope_x
    grad_input.copy_(grad_rows.view(len(input), height, width, -1).permute(0, 3, 1, 2))
    if offset.numel():
        grad_offset[:, 0] = gamma * samples.size[:, 1, None, None] * along_x
        grad_offset[:, 1] = gamma * samples.size[:, 0, None, None] * along_y


def _slopes(point: Points, corners: list[Tensor], width: int) -> tuple[Tensor, Tensor]:
    """Return the derivatives by row and column of the values interpolated between `corners`, each (K, PH, PW)."""
    top_left, top_right, bottom_left, bottom_right = corners
    top, left, bottom, right = (part.to(point.y.dtype) for part in (
        point.pixel[0] // width, point.pixel[0] % width, point.pixel[3] // width, point.pixel[3] % width))
    along_x = (bottom_right - bottom_left) * (point.y - top) + (top_right - top_left) * (bottom - point.y)
    along_y = (bottom_right - top_right) * (point.x - left) + (bottom_left - top_left) * (right - point.x)
    used = point.inside & point.real
    return along_y * used, along_x * used


def _moved(rois: Tensor, offset: Tensor, pooled: tuple[int, int], spatial_scale: float, sampling_ratio: int,
           gamma: float) -> Samples:
    samples = region_samples(rois, pooled, spatial_scale, sampling_ratio, aligned=True)
    if offset.numel():
        shift = gamma * samples.size.flip(1)[:, :, None, None] * offset.view(len(rois), 2, *pooled)
        samples = samples._replace(y=samples.y + shift[:, 1, :, :, None], x=samples.x + shift[:, 0, :, :, None])
    return samples
