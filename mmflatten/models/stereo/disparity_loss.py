"""Smooth L1 between disparities, over the pixels whose truth is known."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.models.stereo.padding import pad_top_right
from mmflatten.structures import StereoDataSample


def stack_truth(data_samples: list[StereoDataSample] | None, shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """The truth of a batch, padded as its images are.

    Args:
        shape: (H, W) of the batch.

    Returns:
        Disparities `(B, H, W)` in pixels, and where they are valid; padding is not.

    Raises:
        ValueError: a sample without truth, or with truth of another size than its image.
    """
    if not data_samples:
        raise ValueError(f'data_samples ({data_samples}) must hold a sample with gt_disparity for each pair')
    truths, valids = [], []
    for sample in data_samples:
        truth = sample.get('gt_disparity')
        missing = [field for field in ('data', 'valid') if truth is None or field not in truth]
        name = sample.get('left_path', 'an unnamed pair')
        if missing:
            raise ValueError(f'the sample of {name} has no gt_disparity.{" and .".join(missing)}; load the disparity '
                             'in the pipeline')
        size = tuple(sample.get('img_shape', shape))
        if truth.shape != size:
            raise ValueError(f'gt_disparity of {name} is {truth.shape[0]}x{truth.shape[1]} and its image '
                             f'{size[0]}x{size[1]}; they must have one size')
        truths.append(pad_top_right(truth.data, shape)[0])
        valids.append(pad_top_right(truth.valid, shape)[0])
    return torch.stack(truths), torch.stack(valids)


def disparity_loss(estimate: Tensor, truth: Tensor, valid: Tensor) -> Tensor:
    """Mean of smooth L1 (beta 1 pixel) over `valid`, all `(B, H, W)`; 0 where no pixel is."""
    total = F.smooth_l1_loss(estimate[valid], truth[valid], reduction='sum')
    return total / valid.sum().clamp(min=1)
