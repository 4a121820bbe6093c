"""Results of exported segmentors."""

from typing import Any

import numpy as np
import torch.nn.functional as F
from mmengine.structures import PixelData

from mmflatten.runtime.model import tensor

OUTPUTS = (('logits',),)
PADS = True
# axes of the logits (C, H, W)
_FLIPPED = {'horizontal': 2, 'vertical': 1}


def add_prediction(sample: Any, result: dict[str, np.ndarray], size: tuple[int, int]) -> None:
    """Set `seg_logits` (classes, H, W) and `pred_sem_seg` (1, H, W) of a data sample, at the size
    `ori_shape`.

    Args:
        size: (H, W) of the image without padding.
    """
    height, width = size
    logits = tensor(result['logits'])[:, :height, :width]
    if sample.get('flip'):  # of test-time augmentation
        logits = logits.flip(_FLIPPED[sample.flip_direction])
    shape = tuple(sample.get('ori_shape', size))[:2]
    if shape != tuple(size):
        logits = F.interpolate(logits[None], size=shape, mode='bilinear')[0]
    labels = logits.argmax(dim=0, keepdim=True)
    sample.set_data(dict(seg_logits=PixelData(data=logits), pred_sem_seg=PixelData(data=labels)))
