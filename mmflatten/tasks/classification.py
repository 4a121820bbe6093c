"""Image classification, on mmpretrain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmflatten.tasks import Task, register_task

if TYPE_CHECKING:
    from mmengine.config import Config
    from mmengine.structures import BaseDataElement


@register_task
class Classification(Task):
    """Class scores of an image."""

    name, abbreviation, scope = 'classification', 'cls', 'mmpretrain'
    input_shape = (224, 224)
    fixed_size = True
    label_lists = True
    prediction = 'pred_score'
    hub_tag = 'image-classification'
    visualizer_type = 'UniversalVisualizer'
    data_preprocessor = 'ClsDataPreprocessor'
    tta_model = dict(type='mmpretrain.AverageClsScoreTTA')

    def inferencer(self, cfg: Config, checkpoint: str | None, device: str) -> Any:
        from mmpretrain import ImageClassificationInferencer

        return ImageClassificationInferencer(cfg, pretrained=checkpoint, device=device)

    def restore(self, entry: dict) -> BaseDataElement:
        import torch
        from mmpretrain.structures import DataSample

        sample = DataSample().set_pred_score(torch.as_tensor(entry['pred_score']))
        return sample.set_pred_label(entry['pred_label']).set_gt_label(entry['gt_label'])
