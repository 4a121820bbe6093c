"""RoIAlign: mean pooling by torchvision's operator, maximum pooling by gathering."""
from __future__ import annotations

import torch
import torchvision  # noqa: F401  registers torch.ops.torchvision
from torch import Tensor

from mmcv_torch_ops.sampling import each_point, pixel_rows, points_at, region_samples


def roi_align_forward(input: Tensor, rois: Tensor, output: Tensor, argmax_y: Tensor, argmax_x: Tensor,
                      aligned_height: int, aligned_width: int, spatial_scale: float, sampling_ratio: int,
                      pool_mode: int, aligned: bool) -> None:
    """Write the pooled regions into `output` (K, C, PH, PW).

    Source: Mask R-CNN (He et al., ICCV 2017, arXiv:1703.06870).

    Args:
        input: (N, C, H, W), and `rois` (K, 5): rows of (image, x1, y1, x2, y2).
        argmax_y, argmax_x: with maximum pooling, (K, C, PH, PW), the points that were largest, or -1.
        pool_mode: 0 takes the largest sample of a bin, 1 their mean.

    A region without area has bins without samples, which give 0. With maximum pooling, mmcv's kernels give -10000 on
    the CPU and -3.4e38 on a GPU.
    """
    check_regions('roi_align', input, rois, (aligned_height, aligned_width))
    if pool_mode not in (0, 1):
        raise ValueError(f'roi_align: pool_mode must be 0 (max) or 1 (avg), got {pool_mode}')
    if pool_mode == 1:
        output.copy_(torch.ops.torchvision.roi_align(input, rois, spatial_scale, aligned_height, aligned_width,
                                                     sampling_ratio, aligned))
        return
    samples = region_samples(rois, (aligned_height, aligned_width), spatial_scale, sampling_ratio, aligned)
    height, width = input.shape[-2:]
    rows, first = pixel_rows(input), samples.batch * height * width
    best = input.new_full((len(rois), aligned_height, aligned_width, input.shape[1]), -torch.inf)
    best_y, best_x = torch.full_like(best, -1), torch.full_like(best, -1)
    for point in each_point(samples, height, width):
        value = point.values(rows, first)
        better = (value > best) & point.real[..., None]
        best = torch.where(better, value, best)
        best_y = torch.where(better, point.y[..., None], best_y)
        best_x = torch.where(better, point.x[..., None], best_x)
    best = best.masked_fill_(samples.numbers.prod(1)[:, None, None, None] == 0, 0)
    for target, source in ((output, best), (argmax_y, best_y), (argmax_x, best_x)):
        target.copy_(source.permute(0, 3, 1, 2))


def roi_align_backward(grad_output: Tensor, rois: Tensor, argmax_y: Tensor, argmax_x: Tensor, grad_input: Tensor,
                       aligned_height: int, aligned_width: int, spatial_scale: float, sampling_ratio: int,
                       pool_mode: int, aligned: bool) -> None:
    """Write the gradient of the map into `grad_input` (N, C, H, W), which is zero before."""
    batch, channels, height, width = grad_input.shape
    if pool_mode == 1:
        grad_input.copy_(torch.ops.torchvision._roi_align_backward(
            grad_output, rois, spatial_scale, aligned_height, aligned_width, batch, channels, height, width,
            sampling_ratio, aligned))
        return
    points = points_at(argmax_y, argmax_x, height, width)
    plane = rois[:, 0].long()[:, None] * channels + torch.arange(channels, device=rois.device)
    weights = points.weight * (argmax_y != -1)
    grad_input.view(-1).scatter_add_(0, (points.pixel + (plane * height * width)[:, :, None, None]).flatten(),
                                   (weights * grad_output).flatten().to(grad_input.dtype))


def check_regions(operator: str, input: Tensor, rois: Tensor, pooled: tuple[int, int]) -> None:
    """Check the arguments that all operators on regions share.

    Raises:
        ValueError: a shape or a pooled size cannot be served; the message names it.
    """
    if input.dim() != 4:
        raise ValueError(f'{operator}: input must have shape (N, C, H, W), got {tuple(input.shape)}')
    if rois.dim() != 2 or rois.shape[1] != 5:
        raise ValueError(f'{operator}: rois must have shape (K, 5), rows of (image, x1, y1, x2, y2), '
                         f'got {tuple(rois.shape)}')
    if not all(isinstance(side, int) and side > 0 for side in pooled):
        raise ValueError(f'{operator}: the pooled size must be a pair of positive integers, got {pooled}')
