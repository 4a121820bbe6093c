"""Stereo matching, with models of this project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmflatten.tasks import Task, register_task

if TYPE_CHECKING:
    from mmengine.config import Config
    from mmengine.structures import BaseDataElement
    from torch import Tensor, nn


@register_task
class Stereo(Task):
    """Disparities of the left image of a pair."""

    name, abbreviation, scope = 'stereo', 'stereo', 'mmflatten'
    input_shape = (256, 512)  # the crop that PSMNet trains on
    inputs = ('left', 'right')
    prediction = 'pred_disparity'
    hub_tag = 'depth-estimation'
    has_classes = False
    visualizer_type = 'StereoVisualizer'

    def inferencer(self, cfg: Config, checkpoint: str | None, device: str) -> Any:
        from mmflatten.datasets.stereo.inferencer import StereoInferencer

        return StereoInferencer(
            cfg, checkpoint, device=device, scope='mmflatten', show_progress=False
        )

    def restore(self, entry: dict) -> BaseDataElement:
        from mmengine.structures import PixelData

        from mmflatten.structures import StereoDataSample

        sample = StereoDataSample(metainfo=dict(ori_shape=entry.get('ori_shape', ())))
        for name in ('gt_disparity', 'pred_disparity'):
            sample.set_data({name: PixelData(**entry[name])})
        return sample

    def forward(self, model: nn.Module, image: Tensor) -> Any:
        return model(dict(left=image, right=image), mode='tensor')

    def backbone(self, model: nn.Module) -> nn.Module:
        return model.features
