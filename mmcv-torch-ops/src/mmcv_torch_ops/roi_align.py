"""RoIAlign: mean pooling by torchvision's operator, maximum pooling by gathering."""

from __future__ import annotations

import torch
import torchvision  # noqa: F401  registers torch.ops.torchvision
from torch import Tensor

from mmcv_torch_ops.deform_roi_pool import add_mean_gradients, mean_samples
from mmcv_torch_ops.precision import single
from mmcv_torch_ops.sampling import (
    bin_samples,
    check_regions,
    finite_regions,
    large_regions,
    moved_away,
    pixel_rows,
    points_at,
    take,
)


def roi_align_forward(
    input: Tensor,
    rois: Tensor,
    output: Tensor,
    argmax_y: Tensor,
    argmax_x: Tensor,
    aligned_height: int,
    aligned_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    pool_mode: int,
    aligned: bool,
) -> None:
    """Write the pooled regions into `output` (K, C, PH, PW).

    Source: Mask R-CNN (He et al., ICCV 2017, arXiv:1703.06870).

    Args:
        input: (N, C, H, W), and `rois` (K, 5): rows of (image, x1, y1, x2, y2).
        argmax_y, argmax_x: with maximum pooling, (K, C, PH, PW), the points that were largest, or
            -1.
        pool_mode: 0 takes the largest sample of a bin, 1 their mean.

    A region without area has bins without samples, which give 0. With maximum pooling, mmcv's
    kernels give -10000 on the CPU and -3.4e38 on a GPU. A region that cannot be pooled (see
    `finite_regions`) gives NaN, and no gradient.
    """
    pooled = (aligned_height, aligned_width)
    check_regions('roi_align', input, rois, pooled)
    input, rois = single(input, rois)
    rois, broken = finite_regions(rois, len(input))
    options = dict(
        pooled=pooled, spatial_scale=spatial_scale, sampling_ratio=sampling_ratio, aligned=aligned
    )
    if pool_mode == 0:
        for target, found in zip((output, argmax_y, argmax_x), _maxima(input, rois, **options)):
            target.copy_(found)
    elif pool_mode == 1:
        _write_means(output, input, rois, **options)
    else:
        raise ValueError(f'roi_align: pool_mode must be 0 (max) or 1 (avg), got {pool_mode}')
    output.masked_fill_(broken, torch.nan)


def roi_align_backward(
    grad_output: Tensor,
    rois: Tensor,
    argmax_y: Tensor,
    argmax_x: Tensor,
    grad_input: Tensor,
    aligned_height: int,
    aligned_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    pool_mode: int,
    aligned: bool,
) -> None:
    """Write the gradient of the map into `grad_input` (N, C, H, W), which is zero before."""
    batch, channels, height, width = grad_input.shape
    grad_output, rois = single(grad_output, rois)
    rois, _ = finite_regions(rois, batch)
    if pool_mode == 1:
        _write_mean_gradient(
            grad_input,
            grad_output,
            rois,
            pooled=(aligned_height, aligned_width),
            spatial_scale=spatial_scale,
            sampling_ratio=sampling_ratio,
            aligned=aligned,
        )
        return
    points = points_at(*single(argmax_y, argmax_x), (height, width), real=argmax_y != -1)
    plane = rois[:, 0].long()[:, None] * channels + torch.arange(channels, device=rois.device)
    pixel = points.pixel + (plane * height * width)[:, :, None, None]
    gradient = torch.zeros_like(grad_input, dtype=grad_output.dtype)
    gradient.view(-1).scatter_add_(0, pixel.flatten(), (points.weight * grad_output).flatten())
    grad_input.copy_(gradient)


def _write_means(
    output: Tensor,
    input: Tensor,
    rois: Tensor,
    *,
    pooled: tuple[int, int],
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
) -> None:
    """Write the mean of the samples of each bin, by torchvision apart from the largest regions."""
    image = tuple(input.shape[2:])
    large = _large(rois, image, spatial_scale, sampling_ratio, aligned)
    means = torch.ops.torchvision.roi_align(
        input,
        rois if large is None else moved_away(rois, large),
        spatial_scale,
        pooled_height=pooled[0],
        pooled_width=pooled[1],
        sampling_ratio=sampling_ratio,
        aligned=aligned,
    )
    output.copy_(means)
    if large is not None:
        means = mean_samples(
            pixel_rows(input),
            rois[large],
            pooled=pooled,
            image=image,
            spatial_scale=spatial_scale,
            sampling_ratio=0,
            aligned=aligned,
        )
        output[large] = means.to(output.dtype)


def _maxima(
    input: Tensor,
    rois: Tensor,
    *,
    pooled: tuple[int, int],
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Return the largest sample of each bin and its y and x, (3, K, C, PH, PW).

    Without samples these are 0, -1 and -1.
    """
    rows = pixel_rows(input)
    image = tuple(input.shape[2:])
    best, best_y, best_x = bins = rows.new_zeros(
        3, len(rois) * pooled[0] * pooled[1], rows.shape[1]
    )
    groups = bin_samples(
        rois,
        pooled=pooled,
        image=image,
        spatial_scale=spatial_scale,
        sampling_ratio=sampling_ratio,
        aligned=aligned,
        channels=rows.shape[1],
    )
    for some, samples in groups:
        y, x, real = torch.broadcast_tensors(samples.y, samples.x, samples.real)
        y, x, real = y.flatten(1), x.flatten(1), real.flatten(1)
        if not y.shape[1]:  # regions without area
            bins[1:, some] = -1
            continue
        points = points_at(y, x, image)
        pixel = points.pixel + samples.first[:, 0]
        values = take(rows, pixel[0]).mul_(points.weight[0, ..., None])
        for corner in range(1, 4):
            values.addcmul_(take(rows, pixel[corner]), points.weight[corner, ..., None])
        largest, place = values.masked_fill_(~real[..., None], -torch.inf).max(1)
        empty = ~real.any(1)[:, None]
        best[some] = largest.masked_fill(empty, 0)
        best_y[some] = y.gather(1, place).masked_fill(empty, -1)
        best_x[some] = x.gather(1, place).masked_fill(empty, -1)
    return bins.view(3, len(rois), *pooled, rows.shape[1]).permute(0, 1, 4, 2, 3)


def _write_mean_gradient(
    grad_input: Tensor,
    grad_output: Tensor,
    rois: Tensor,
    *,
    pooled: tuple[int, int],
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
) -> None:
    """Write the gradient of `_write_means`."""
    batch, channels, height, width = grad_input.shape
    image = (height, width)
    large = _large(rois, image, spatial_scale, sampling_ratio, aligned)
    gradient = torch.ops.torchvision._roi_align_backward(
        grad_output,
        rois if large is None else moved_away(rois, large),
        spatial_scale,
        pooled_height=pooled[0],
        pooled_width=pooled[1],
        batch_size=batch,
        channels=channels,
        height=height,
        width=width,
        sampling_ratio=sampling_ratio,
        aligned=aligned,
    )
    grad_input.copy_(gradient)
    if large is not None:
        grad_rows = grad_output.new_zeros(batch * height * width, channels)
        add_mean_gradients(
            grad_rows,
            grad_output[large],
            rois[large],
            image=image,
            spatial_scale=spatial_scale,
            sampling_ratio=0,
            aligned=aligned,
        )
        grad_input.add_(grad_rows.view(batch, height, width, channels).permute(0, 3, 1, 2))


def _large(
    rois: Tensor, image: tuple[int, int], spatial_scale: float, sampling_ratio: int, aligned: bool
) -> Tensor | None:
    """Return a mask (K,) of regions with too many samples for torchvision, or None if there are
    none.

    torchvision lists or visits all samples of a region, also those outside of the map: gigabytes,
    or hours.
    """
    if sampling_ratio > 0 or rois.is_meta or torch.compiler.is_compiling():
        return None
    large = large_regions(rois, image, spatial_scale, aligned)
    return large if large.any() else None
