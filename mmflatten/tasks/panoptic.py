"""Panoptic segmentation, on mmdet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mmflatten.tasks import register_task
from mmflatten.tasks.detection import Detection

if TYPE_CHECKING:
    from mmengine.structures import BaseDataElement


@register_task
class Panoptic(Detection):
    """A class of each pixel, and the instance of each pixel of a thing."""

    name, abbreviation = 'panoptic', 'panoptic'
    prediction = 'pred_panoptic_seg'
    hub_tag = 'image-segmentation'
    has_instances = False  # its segments have no scores
    needs_classes = True

    def recognises(self, model: Mapping[str, Any]) -> bool:
        if 'task' in model:  # an exported file
            return model['task'] == self.name
        # MaskFormer and Mask2Former also predict instances alone, with `panoptic_on=False`.
        test = model.get('test_cfg') or {}
        return bool(model.get('panoptic_fusion_head')) and test.get('panoptic_on', True)

    def restore(self, entry: dict) -> BaseDataElement:
        import torch
        from mmengine.structures import PixelData

        sample = super().restore(entry)
        for name in ('gt_sem_seg', 'pred_panoptic_seg'):
            if name in entry:
                labels = torch.as_tensor(entry[name]['sem_seg']).long()
                setattr(sample, name, PixelData(sem_seg=labels))
        return sample
