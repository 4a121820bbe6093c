"""Smooth L1 loss of disparities over pixels with ground truth."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.models.stereo.data_preprocessor import pad_top_right
from mmflatten.structures import StereoDataSample


def stack_truth(
    data_samples: list[StereoDataSample] | None, shape: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """Stack the ground truth of a batch, padded like its images.

    Args:
        data_samples: samples with `gt_disparity`.
        shape: (H, W) of the batch.

    Returns:
        Disparities `(B, H, W)` in pixels, and a mask `(B, H, W)` of valid pixels, which excludes
        padding.

    Raises:
        ValueError: a sample has no ground truth, or its size differs from the image.
    """
    if not data_samples:
        raise ValueError(
            f'data_samples: expected a sample with gt_disparity for each pair, got {data_samples}.'
        )
    truths, valids = [], []
    for sample in data_samples:
        truth = sample.get('gt_disparity')
        fields = () if truth is None else truth
        missing = [name for name in ('data', 'valid') if name not in fields]
        name = sample.get('left_path', 'an unnamed pair')
        if missing:
            raise ValueError(
                f'gt_disparity of {name}: missing {" and ".join(missing)}. Load the disparity in'
                ' the pipeline.'
            )
        size = tuple(sample.get('img_shape', shape))
        if truth.shape != size:
            raise ValueError(
                f'gt_disparity of {name}: expected the size of the image, {size[0]}x{size[1]}, got '
                f'{truth.shape[0]}x{truth.shape[1]}.'
            )
        truths.append(pad_top_right(truth.data, shape)[0])
        valids.append(pad_top_right(truth.valid, shape)[0])
    return torch.stack(truths), torch.stack(valids)


def disparity_loss(estimate: Tensor, truth: Tensor, valid: Tensor) -> Tensor:
    """Compute the mean smooth L1 loss (beta 1 pixel) over `valid` pixels of `(B, H, W)`; 0 without
    valid pixels.
    """
    total = F.smooth_l1_loss(estimate[valid], truth[valid], reduction='sum')
    return total / valid.sum().clamp(min=1)
