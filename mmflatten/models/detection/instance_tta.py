"""Test-time augmentation for detectors with and without masks (needs mmdet)."""
from typing import Any

import torch
from mmcv.ops import batched_nms
from mmdet.structures import DetDataSample
from mmdet.structures.bbox import bbox_flip
from mmengine.model import BaseTTAModel
from mmengine.structures import InstanceData

_MASK_AXES = dict(horizontal=(-1, ), vertical=(-2, ), diagonal=(-2, -1))


class InstanceTTAModel(BaseTTAModel):
    """Merge the detections of all views by class-wise NMS; a kept box keeps the mask of the view it was found in.

    mmdet's `DetTTAModel` merges boxes alone and refuses masks.

    Args:
        iou_threshold (float): Boxes of one class that overlap more are duplicates.
        max_per_img (int): Detections kept per image.
    """

    def __init__(self, iou_threshold: float = 0.5, max_per_img: int = 100, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.iou_threshold = iou_threshold
        self.max_per_img = max_per_img

    def merge_preds(self, data_samples_list: list[list[DetDataSample]]) -> list[DetDataSample]:
        """Merge, for every image, the list of its views into the first of them."""
        return [self._merge(views) for views in data_samples_list]

    def _merge(self, views: list[DetDataSample]) -> DetDataSample:
        instances = InstanceData.cat([_unflip(view) for view in views])
        if len(instances) > 0:
            nms = dict(type='nms', iou_threshold=self.iou_threshold)
            scored, keep = batched_nms(instances.bboxes, instances.scores, instances.labels, nms)
            keep = keep[:self.max_per_img]
            instances = instances[keep]
            instances.scores = scored[:self.max_per_img, -1]
        merged = views[0]
        merged.pred_instances = instances
        return merged


def _unflip(view: DetDataSample) -> InstanceData:
    """Detections of one view in the coordinates of the original image."""
    found = view.pred_instances
    merged = InstanceData(bboxes=found.bboxes, scores=found.scores, labels=found.labels)
    masks = found.get('masks')
    if view.metainfo.get('flip', False):
        merged.bboxes = bbox_flip(found.bboxes, view.ori_shape, view.flip_direction)
        masks = None if masks is None else torch.flip(masks, _MASK_AXES[view.flip_direction])
    if masks is not None:
        merged.masks = masks
    return merged
