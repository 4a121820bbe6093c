"""Test of an exported detector with the config's data and metrics."""
from typing import Any

import torch
from mmengine.config import Config, ConfigDict
from mmengine.model import BaseModel
from mmengine.structures import BaseDataElement, InstanceData
from torch import Tensor

from mmflatten.export.detection import paste_masks
from mmflatten.export.engines import load_engine
from mmflatten.export.wrappers import ExportError
from mmflatten.registry import MODELS


@MODELS.register_module()
class ExportedFile(BaseModel):
    """Model that predicts with an exported detector, one image at a time, on the CPU.

    Boxes and masks are scaled back to the original image.

    Raises:
        ExportError: the file is not of a detector with suppression.
    """

    def __init__(self, file: str) -> None:
        super().__init__()
        self.engine = load_engine(file)
        if not {'boxes', 'labels'} <= set(self.engine.metadata['outputs']):
            raise ExportError(f'{file}: expected the file of a detector with suppression, got outputs '
                              f'{", ".join(self.engine.metadata["outputs"])}.')

    def forward(self, inputs: list[Tensor], data_samples: list[BaseDataElement], mode: str = 'predict'
                ) -> list[BaseDataElement]:
        return [self._predict(image, sample) for image, sample in zip(inputs, data_samples, strict=True)]

    def _predict(self, image: Tensor, sample: Any) -> BaseDataElement:
        outputs = self.engine(image[None].flip(1).float().numpy())  # mmcv reads BGR
        factors = torch.tensor(sample.scale_factor * 2)
        instances = InstanceData(bboxes=torch.from_numpy(outputs['boxes']) / factors,
                                 scores=torch.from_numpy(outputs['scores']),
                                 labels=torch.from_numpy(outputs['labels']))
        if 'masks' in outputs:
            instances.masks = torch.from_numpy(paste_masks(outputs['masks'], instances.bboxes.numpy(),
                                                           sample.ori_shape[:2],
                                                           self.engine.metadata['mask_threshold']))
        sample.pred_instances = instances
        return sample


def use_file(cfg: Config, file: str) -> None:
    """Make a config test an exported file in place of its model."""
    cfg.model = ConfigDict(type='mmflatten.ExportedFile', file=file)
    cfg.pop('data_preprocessor', None)
