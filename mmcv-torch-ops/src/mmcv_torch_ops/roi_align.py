"""RoIAlign: mean pooling by torchvision's operator, maximum pooling by gathering."""
from __future__ import annotations

import torch
import torchvision  # noqa: F401  registers torch.ops.torchvision
from torch import Tensor

from mmcv_torch_ops.sampling import corners_of, pixel_rows, region_samples, take

_CHUNK = 2 ** 24  # sampled values at a time: 64 MiB in float32


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
    pixels = pixel_rows(input)
    argmax_y.fill_(-1)
    argmax_x.fill_(-1)
    per_region = aligned_height * aligned_width * samples.used[:1].numel() * input.shape[1]
    for some in torch.arange(len(rois), device=rois.device).split(max(1, _CHUNK // max(1, per_region))):
        y, x = torch.broadcast_tensors(samples.y[some], samples.x[some])
        if not y.numel():
            continue
        corners = corners_of(y, x, height, width)
        rows = corners.pixel + (samples.batch[some] * height * width)[:, None, None, None, None]
        values = take(pixels, rows[0]).mul_(corners.weight[0, ..., None])
        for row, weight in zip(rows[1:], corners.weight[1:]):
            values.addcmul_(take(pixels, row), weight[..., None])
        values = values.masked_fill_(~samples.used[some, ..., None], -torch.inf).flatten(3, 4)
        best, place = values.max(3)
        used = samples.used[some].flatten(1).any(1)[:, None, None, None]
        for target, source, empty in ((output, best, 0), (argmax_y, y, -1), (argmax_x, x, -1)):
            found = source if source is best else source.flatten(3, 4).gather(3, place)
            target[some] = found.masked_fill(~used, empty).permute(0, 3, 1, 2)


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
    corners = corners_of(argmax_y, argmax_x, height, width)
    plane = rois[:, 0].long()[:, None] * channels + torch.arange(channels, device=rois.device)
    weights = corners.weight * (argmax_y != -1)
    grad_input.view(-1).scatter_add_(0, (corners.pixel + (plane * height * width)[:, :, None, None]).flatten(),
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
