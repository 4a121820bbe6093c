"""Deformable RoI pooling: RoIAlign whose bins are moved by learned offsets."""
from __future__ import annotations

import torch
from torch import Tensor

from mmcv_torch_ops.roi_align import check_regions
from mmcv_torch_ops.sampling import Samples, corners_of, pixel_rows, region_samples, take


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
    corners = corners_of(samples.y, samples.x, height, width)
    rows = corners.pixel + (samples.batch * height * width)[:, None, None, None, None]
    pixels = pixel_rows(input)
    weights = corners.weight * samples.used
    total = sum((take(pixels, row) * weight[..., None]).sum((3, 4)) for row, weight in zip(rows, weights))
    output.copy_((total / samples.count[..., None]).permute(0, 3, 1, 2))


def deform_roi_pool_backward(grad_output: Tensor, input: Tensor, rois: Tensor, offset: Tensor, grad_input: Tensor,
                             grad_offset: Tensor, pooled_height: int, pooled_width: int, spatial_scale: float,
                             sampling_ratio: int, gamma: float) -> None:
    """Write the gradients of the map and of the offsets into `grad_input` and `grad_offset`, which are zero before.

    As in mmcv's kernel, the gradient of an offset extrapolates for samples up to one pixel outside of the map. There it
    is not the derivative of the value, which is constant across the border.
    """
    height, width = input.shape[-2:]
    samples = _moved(rois, offset, (pooled_height, pooled_width), spatial_scale, sampling_ratio, gamma)
    corners = corners_of(samples.y, samples.x, height, width)
    rows = corners.pixel + (samples.batch * height * width)[:, None, None, None, None]
    gradient = (grad_output / samples.count[:, None]).permute(0, 2, 3, 1)[:, :, :, None, None]
    channels_last = torch.zeros_like(pixel_rows(input))
    for row, weight in zip(rows, corners.weight * samples.used):
        share = (weight[..., None] * gradient).flatten(0, 4)
        channels_last.index_add_(0, row.flatten(), share)
    grad_input.copy_(channels_last.view(len(input), height, width, -1).permute(0, 3, 1, 2))
    if not offset.numel():
        return
    pixels = pixel_rows(input)
    top_left, top_right, bottom_left, bottom_right = ((take(pixels, row) * gradient).sum(-1) for row in rows)
    real = corners.inside & samples.used
    above, below = samples.y - corners.top, corners.bottom - samples.y
    before, after = samples.x - corners.left, corners.right - samples.x
    along_x = (bottom_right - bottom_left) * above + (top_right - top_left) * below
    along_y = (bottom_right - top_right) * before + (bottom_left - top_left) * after
    for axis, slope in enumerate((along_x, along_y)):
        side = samples.size[:, 1 - axis, None, None]
        grad_offset[:, axis] = gamma * side * (slope * real).sum((3, 4))


def _moved(rois: Tensor, offset: Tensor, pooled: tuple[int, int], spatial_scale: float, sampling_ratio: int,
           gamma: float) -> Samples:
    samples = region_samples(rois, pooled, spatial_scale, sampling_ratio, aligned=True)
    if offset.numel():
        shift = gamma * samples.size.flip(1)[:, :, None, None] * offset.view(len(rois), 2, *pooled)
        samples = samples._replace(y=samples.y + shift[:, 1, :, :, None, None],
                                   x=samples.x + shift[:, 0, :, :, None, None])
    y, x = torch.broadcast_tensors(samples.y, samples.x)
    return samples._replace(y=y, x=x)
