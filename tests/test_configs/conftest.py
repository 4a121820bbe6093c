"""What the tests of the configs share: models built from them, and batches they can be trained on."""
from pathlib import Path
from typing import Callable

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.model import BaseModel, revert_sync_batchnorm
from mmengine.registry import MODELS, DefaultScope, init_default_scope
from mmengine.structures import InstanceData, PixelData

CONFIGS = Path(__file__).parents[2] / 'configs'


@pytest.fixture(autouse=True)
def restore_default_scope():
    """Every test leaves the global default scope as it found it."""
    before = dict(DefaultScope._instance_dict)
    yield
    DefaultScope._instance_dict.clear()
    DefaultScope._instance_dict.update(before)


@pytest.fixture
def load_config() -> Callable[[str], Config]:
    """Reads `<family>/<name>.py` and makes its task library the default scope."""

    def load(name: str) -> Config:
        config = Config.fromfile(CONFIGS / name)
        init_default_scope(config.default_scope)
        return config

    return load


@pytest.fixture
def build_model() -> Callable[[Config], BaseModel]:
    """A config's model as a run on one CPU has it, from random weights.

    It is of full size; only training crops are not padded to theirs, and few proposals are trained on.
    """

    def build(config: Config) -> BaseModel:
        torch.manual_seed(0)
        model = config.model
        model.setdefault('data_preprocessor', config.get('data_preprocessor'))
        model.backbone.init_cfg = None
        if config.default_scope == 'mmseg':
            model.data_preprocessor.size = None
            model.data_preprocessor.size_divisor = 1
        if 'roi_head' in model:
            model.train_cfg.rpn_proposal.update(nms_pre=50, max_per_img=20)
            model.test_cfg.rpn.update(nms_pre=50, max_per_img=20)
            rcnn = model.train_cfg.rcnn
            for stage in rcnn if isinstance(rcnn, list) else [rcnn]:
                stage.sampler.num = 8
        built = revert_sync_batchnorm(MODELS.build(model))
        built.init_weights()
        return built

    return build


@pytest.fixture
def make_batch() -> Callable[[str, int, int], dict]:
    """`make_batch(scope, height, width)`: two images and their truth, as the scope's data loader hands them over."""

    def make(scope: str, height: int, width: int) -> dict:
        generator = torch.Generator().manual_seed(0)
        images = [torch.randint(0, 256, (3, height, width), generator=generator, dtype=torch.uint8) for _ in range(2)]
        sample = dict(mmpretrain=_labelled, mmdet=_boxed, mmseg=_segmented)[scope]
        samples = [sample(number, height, width) for number in range(2)]
        return dict(inputs=torch.stack(images) if scope == 'mmpretrain' else images, data_samples=samples)

    return make


def _labelled(number: int, height: int, width: int):
    from mmpretrain.structures import DataSample
    return DataSample(metainfo=dict(img_shape=(height, width))).set_gt_label(number)


def _boxed(number: int, height: int, width: int):
    from mmdet.structures import DetDataSample
    from mmdet.structures.mask import BitmapMasks
    boxes = [(2 + number, 4, 40, 36), (24, 20, 60, 62)]
    masks = np.zeros((2, height, width), dtype=np.uint8)
    for mask, (left, top, right, bottom) in zip(masks, boxes):
        mask[top:bottom, left:right] = 1
    truth = InstanceData(bboxes=torch.tensor(boxes).float(), labels=torch.tensor([number, 3]),
                         masks=BitmapMasks(masks, height, width))
    metainfo = dict(img_id=number, img_shape=(height, width), ori_shape=(height, width), scale_factor=(1.0, 1.0))
    return DetDataSample(metainfo=metainfo, gt_instances=truth)


def _segmented(number: int, height: int, width: int):
    from mmseg.structures import SegDataSample
    classes = torch.full((1, height, width), number)
    classes[:, :, width // 2:] = 5
    metainfo = dict(img_shape=(height, width), ori_shape=(height, width))
    return SegDataSample(metainfo=metainfo, gt_sem_seg=PixelData(data=classes))
