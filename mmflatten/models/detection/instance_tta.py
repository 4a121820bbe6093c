"""Test-time augmentation for detectors with and without masks. Requires mmdet."""
from itertools import chain
from typing import Any

import torch
from mmcv.ops import batched_nms
from mmdet.structures import DetDataSample
from mmdet.structures.bbox import bbox_flip
from mmengine.model import BaseTTAModel
from mmengine.structures import InstanceData

from mmflatten.registry import MODELS

_MASK_AXES = dict(horizontal=(-1, ), vertical=(-2, ), diagonal=(-2, -1))


@MODELS.register_module()
class InstanceTTAModel(BaseTTAModel):
    """Merge the detections of all views of an image by class-wise NMS. A box keeps the mask of its view.

    mmdet's `DetTTAModel` does the same without masks.

    Args:
        iou_threshold: IoU threshold of the NMS.
        max_per_img: maximum number of detections per image.
    """

    def __init__(self, iou_threshold: float = 0.5, max_per_img: int = 100, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.nms = dict(type='nms', iou_threshold=iou_threshold)
        self.max_per_img = max_per_img

    def test_step(self, data: dict) -> list[DetDataSample]:
        """Detect objects in a batch. Each value of `data` is a list of views, each a list of images."""
        for sample in chain.from_iterable(data['data_samples']):  # mmdet 3.5 would flip masks of cascades, and fail
            sample.set_metainfo(dict(mirrored=sample.get('flip') and sample.flip_direction, flip=False))
        return super().test_step(data)

    def merge_preds(self, data_samples_list: list[list[DetDataSample]]) -> list[DetDataSample]:
        """Merge the detections of all views of each image into the sample of the first view."""
        for views in data_samples_list:
            instances = InstanceData.cat([_unflip(view) for view in views])
            if len(instances):
                _, keep = batched_nms(instances.bboxes, instances.scores, instances.labels, self.nms)
                instances = instances[keep[:self.max_per_img]]
            views[0].pred_instances = instances
        return [views[0] for views in data_samples_list]


def _unflip(view: DetDataSample) -> InstanceData:
    """Return the detections of one view, already at the original size, without its flip."""
    found, direction = view.pred_instances, view.mirrored
    if direction:
        found.bboxes = bbox_flip(found.bboxes, view.ori_shape, direction)
        if 'masks' in found:
            found.masks = torch.flip(found.masks, _MASK_AXES[direction])
    return found
