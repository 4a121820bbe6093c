"""Results of exported panoptic models."""

from typing import Any

import numpy as np
import torch.nn.functional as F
from mmengine.structures import PixelData

from mmflatten.runtime.model import tensor

OUTPUTS = (('segments',),)
PADS = True


def add_prediction(sample: Any, result: dict[str, np.ndarray], size: tuple[int, int]) -> None:
    """Set `pred_panoptic_seg` (1, H, W) of a data sample, at the size `ori_shape`.

    Args:
        size: (H, W) of the image without padding.
    """
    height, width = size
    segments = tensor(result['segments'][:height, :width])[None]
    shape = tuple(sample.get('ori_shape', size))[:2]
    if shape != tuple(size):
        # All numbers are below 2^24, which float32 holds exactly.
        segments = F.interpolate(segments[None].float(), size=shape, mode='nearest-exact')[0]
    sample.pred_panoptic_seg = PixelData(sem_seg=segments.int())
