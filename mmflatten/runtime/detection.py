"""Results of exported detectors."""

from typing import Any

import cv2
import numpy as np
import torch
from mmdet.models.utils import samplelist_boxtype2tensor
from mmengine.structures import InstanceData

from mmflatten.runtime.model import tensor

_BOXES = ('boxes', 'scores', 'labels')
OUTPUTS = (_BOXES, (*_BOXES, 'masks'))
PADS = True


def add_prediction(sample: Any, result: dict[str, np.ndarray], size: tuple[int, int]) -> None:
    """Set `pred_instances` of a data sample: `bboxes` (n, 4), `scores` (n), `labels` (n) and, for
    models of masks, `masks` (n, H, W), in the image before resizing.

    Args:
        size: (H, W) of the image without padding.
    """
    height, width = size
    is_present = result['labels'] >= 0
    boxes = result['boxes'][is_present].copy()
    boxes[:, 0::2] = boxes[:, 0::2].clip(0, width)
    boxes[:, 1::2] = boxes[:, 1::2].clip(0, height)
    scale_x, scale_y = sample.get('scale_factor', (1.0, 1.0))[:2]
    boxes /= np.array([scale_x, scale_y, scale_x, scale_y], np.float32)
    instances = InstanceData(
        bboxes=tensor(boxes),
        scores=tensor(result['scores'][is_present]),
        labels=tensor(result['labels'][is_present]),
    )
    if 'masks' in result:
        masks = result['masks'][is_present][:, :height, :width]
        shape = tuple(sample.get('ori_shape', size))[:2]
        instances.masks = _resized(masks, shape)
    sample.pred_instances = instances
    samplelist_boxtype2tensor([sample])  # the true boxes, as mmdet's detectors do


def _resized(masks_nHW: np.ndarray, size: tuple[int, int]) -> torch.Tensor:
    """Resize masks to (H, W): a pixel belongs to a mask that covers at least half of it."""
    if masks_nHW.shape[1:] == size:
        return tensor(masks_nHW)
    resized = np.zeros((len(masks_nHW), *size), bool)
    for mask, target in zip(masks_nHW, resized):
        levels = cv2.resize(mask.astype(np.float32), size[::-1], interpolation=cv2.INTER_LINEAR)
        target[:] = levels >= 0.5
    return torch.from_numpy(resized)
