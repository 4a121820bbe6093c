"""RoIAlign: mean pooling by torchvision's operator, maximum pooling by gathering."""
from __future__ import annotations

import torch
import torchvision  # noqa: F401  registers torch.ops.torchvision
from torch import Tensor

from mmcv_torch_ops.precision import single
from mmcv_torch_ops.sampling import finite_regions, pixel_rows, points_at, region_samples, similar_regions, take


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
    the CPU and -3.4e38 on a GPU. A region with a coordinate that is not finite gives NaN, and no gradient.
    """
    pooled = (aligned_height, aligned_width)
    check_regions('roi_align', input, rois, pooled)
    input, rois = single(input, rois)
    rois, broken = finite_regions(rois)
    if pool_mode == 1:
        output.copy_(torch.ops.torchvision.roi_align(input, rois, spatial_scale, *pooled, sampling_ratio, aligned))
        output.masked_fill_(broken, torch.nan)
        return
    if pool_mode != 0:
        raise ValueError(f'roi_align: pool_mode must be 0 (max) or 1 (avg), got {pool_mode}')
    rows, image = pixel_rows(input), tuple(input.shape[2:])
    for some in similar_regions(rois, pooled, spatial_scale, sampling_ratio, aligned, input.shape[1]):
        samples = region_samples(rois[some], pooled, image, spatial_scale, sampling_ratio, aligned)
        y, x = (part.flatten(3) for part in torch.broadcast_tensors(samples.y, samples.x))
        if not y.shape[3]:  # regions without area
            output[some], argmax_y[some], argmax_x[some] = 0, -1, -1
            continue
        points = points_at(y, x, image)
        pixel = points.pixel + samples.first[:, None, None, None]
        values = take(rows, pixel[0]).mul_(points.weight[0, ..., None])
        for corner in range(1, 4):
            values.addcmul_(take(rows, pixel[corner]), points.weight[corner, ..., None])
        real = samples.real.flatten(3)
        best, place = values.masked_fill_(~real[..., None], -torch.inf).max(3)
        empty = ~real.any(3)[..., None]
        for target, found, nothing in ((output, best, 0), (argmax_y, y.gather(3, place), -1),
                                       (argmax_x, x.gather(3, place), -1)):
            target[some] = found.masked_fill(empty, nothing).permute(0, 3, 1, 2).to(target.dtype)
    output.masked_fill_(broken, torch.nan)


def roi_align_backward(grad_output: Tensor, rois: Tensor, argmax_y: Tensor, argmax_x: Tensor, grad_input: Tensor,
                       aligned_height: int, aligned_width: int, spatial_scale: float, sampling_ratio: int,
                       pool_mode: int, aligned: bool) -> None:
    """Write the gradient of the map into `grad_input` (N, C, H, W), which is zero before."""
    batch, channels, height, width = grad_input.shape
    grad_output, rois = single(grad_output, rois)
    rois, _ = finite_regions(rois)
    if pool_mode == 1:
        grad_input.copy_(torch.ops.torchvision._roi_align_backward(
            grad_output, rois, spatial_scale, aligned_height, aligned_width, batch, channels, height, width,
            sampling_ratio, aligned))
        return
    points = points_at(*single(argmax_y, argmax_x), (height, width), real=argmax_y != -1)
    plane = rois[:, 0].long()[:, None] * channels + torch.arange(channels, device=rois.device)
    gradient = torch.zeros_like(grad_input, dtype=grad_output.dtype)
    gradient.view(-1).scatter_add_(0, (points.pixel + (plane * height * width)[:, :, None, None]).flatten(),
                                   (points.weight * grad_output).flatten())
    grad_input.copy_(gradient)


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
