"""Monocular depth, a task of another package. `tests/test_tasks/test_new_task.py` copies it out of
the tree.

Images are grey ramps, and the depth of a pixel is its brightness. A linear head on one map of a
backbone predicts it.
"""

from pathlib import Path

import mmcv
import numpy as np
import torch
import torch.nn.functional as F
from mmengine.dataset import BaseDataset
from mmengine.evaluator import BaseMetric
from mmengine.model import BaseModel
from mmengine.registry import DATASETS, METRICS, MODELS, VISUALIZERS
from mmengine.structures import BaseDataElement, PixelData
from mmengine.visualization import Visualizer
from torch import nn

from mmflatten.tasks import Task, register_task


@DATASETS.register_module()
class Ramps(BaseDataset):
    """Images of `data_root`, with their mean over the channels as depth."""

    METAINFO = dict(classes=())

    def load_data_list(self):
        return [dict(img_path=str(path)) for path in sorted(Path(self.data_root).glob('*.png'))]

    def prepare_data(self, index):
        return load(self.get_data_info(index)['img_path'])


def load(path):
    image = mmcv.imread(path)
    sample = BaseDataElement(metainfo=dict(img_path=path, ori_shape=image.shape[:2]))
    sample.gt_depth = PixelData(data=torch.from_numpy(image.mean(2, dtype=np.float32)[None] / 255))
    return dict(inputs=torch.from_numpy(image.transpose(2, 0, 1).copy()), data_samples=sample)


@MODELS.register_module()
class LinearDepth(BaseModel):
    """A backbone with one linear layer on its last map."""

    def __init__(self, backbone, channels, data_preprocessor=None):
        super().__init__(
            data_preprocessor
            or dict(type='mmengine.ImgDataPreprocessor', mean=[128] * 3, std=[64] * 3)
        )
        self.backbone, self.head = MODELS.build(backbone), nn.Conv2d(channels, 1, 1)

    def forward(self, inputs, data_samples=None, mode='tensor'):
        depth = F.interpolate(
            self.head(self.backbone(inputs)[-1]), inputs.shape[-2:], mode='bilinear'
        )
        if mode == 'loss':
            truth = torch.stack([sample.gt_depth.data for sample in data_samples])
            return dict(loss=F.l1_loss(depth, truth.to(depth)))
        if mode == 'predict':
            for sample, values in zip(data_samples, depth):
                sample.pred_depth = PixelData(data=values)
            return data_samples
        return depth


@METRICS.register_module()
class DepthError(BaseMetric):
    def process(self, data_batch, data_samples):
        self.results += [
            float(
                (sample['pred_depth']['data'].cpu() - sample['gt_depth']['data'].cpu()).abs().mean()
            )
            for sample in data_samples
        ]

    def compute_metrics(self, results):
        return dict(abs_error=float(np.mean(results)))


@VISUALIZERS.register_module()
class DepthVisualizer(Visualizer):
    def add_datasample(
        self, name, image, data_sample, draw_gt=True, out_file=None, step=0, **kwargs
    ):
        depth = data_sample.pred_depth.data[0].clamp(0, 1).mul(255).byte().numpy(force=True)
        mmcv.imwrite(np.hstack([image, np.repeat(depth[..., None], 3, 2)]), out_file)


class Inferencer:
    """Prepares images as the data set does, and runs the model."""

    def __init__(self, cfg, device):
        self.model = MODELS.build(cfg.model).to(device).eval()

    def preprocess(self, images, batch_size):
        loaded = [load(image) for image in images]
        yield dict(
            inputs=[each['inputs'] for each in loaded],
            data_samples=[each['data_samples'] for each in loaded],
        )

    def forward(self, batch):
        return self.model.test_step(batch)


@register_task
class Depth(Task):
    name, scope, package = 'depth', 'depth_package', 'depth_package'
    input_shape = (64, 96)
    prediction = 'pred_depth'
    has_classes = False
    visualizer_type = 'DepthVisualizer'

    def inferencer(self, cfg, checkpoint, device):
        return Inferencer(cfg, device)

    def restore(self, entry):
        sample = BaseDataElement(metainfo=dict(ori_shape=entry['ori_shape']))
        sample.pred_depth = PixelData(**entry['pred_depth'])
        return sample
