"""Semantic segmentation, on mmseg."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

from mmflatten.tasks import Task, register_task, with_own_collate

if TYPE_CHECKING:
    from mmengine.config import Config
    from mmengine.structures import BaseDataElement
    from torch import Tensor, nn


@register_task
class Segmentation(Task):
    """A class of each pixel."""

    name, abbreviation, scope = 'segmentation', 'seg', 'mmseg'
    input_shape = (512, 2048)
    prediction = 'pred_sem_seg'
    hub_tag = 'image-segmentation'
    visualizer_type = 'SegLocalVisualizer'
    tta_model = dict(type='mmseg.SegTTAModel')
    tta_scales = True
    annotation_files = True
    has_label_maps = True
    needs_classes = True

    def inferencer(self, cfg: Config, checkpoint: str | None, device: str) -> Any:
        from mmseg.apis import MMSegInferencer

        return with_own_collate(MMSegInferencer)(
            cfg, checkpoint, device=device, show_progress=False
        )

    def restore(self, entry: dict) -> BaseDataElement:
        import torch
        from mmengine.structures import PixelData
        from mmseg.structures import SegDataSample

        sample = SegDataSample()
        for name in ('gt_sem_seg', 'pred_sem_seg'):
            sample.set_data({name: PixelData(data=torch.as_tensor(entry[name]['data']).long())})
        return sample

    def forward(self, model: nn.Module, image: Tensor) -> Any:
        head = model.decode_head
        if 'batch_data_samples' not in signature(head.forward).parameters:
            return model._forward(image)
        # mmseg's `_forward` does not pass what the heads that it derives from mmdet's require.
        return head(model.extract_feat(image), _samples(image))


def _samples(image: Tensor) -> list:
    from mmseg.structures import SegDataSample

    size = tuple(image.shape[-2:])
    return [SegDataSample(metainfo=dict(img_shape=size, ori_shape=size)) for _ in image]
