"""Costs of configs, counted once, and the baselines of mmdet and mmseg from their own configs."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import mmdet
import mmseg
import pytest
from mmengine.config import Config, ConfigDict

from mmflatten.measure.flops.model_cost import ModelCost
from mmflatten.measure.papers.costs import count_beside_papers
from mmflatten.measure.papers.tables import rows_of_config

ROOT = Path(__file__).parents[2]
SWIN_T = dict(
    type='SwinTransformer',
    embed_dims=96,
    depths=[2, 2, 6, 2],
    num_heads=[3, 6, 12, 24],
    window_size=7,
)
SWIN_CHANNELS = [96, 192, 384, 768]
BACKBONES = {
    'r50': (dict(type='ResNet', depth=50), [256, 512, 1024, 2048]),
    'swin-t': (SWIN_T, SWIN_CHANNELS),
    'swin-s': (dict(SWIN_T, depths=[2, 2, 18, 2]), SWIN_CHANNELS),
    'pvt-t': (dict(type='PyramidVisionTransformer', num_layers=[2, 2, 2, 2]), [64, 128, 320, 512]),
}
KINDS = {
    'mask-rcnn': (mmdet, 'mask_rcnn/mask-rcnn_r50_fpn_1x_coco.py'),
    'cascade-mask-rcnn': (mmdet, 'cascade_rcnn/cascade-mask-rcnn_r50_fpn_1x_coco.py'),
    'htc': (mmdet, 'htc/htc_r50_fpn_1x_coco.py'),
    'sparse-rcnn': (
        mmdet,
        'sparse_rcnn/sparse-rcnn_r50_fpn_300-proposals_crop-ms-480-800-3x_coco.py',
    ),
    'atss': (mmdet, 'atss/atss_r50_fpn_1x_coco.py'),
    'upernet': (mmseg, 'upernet/upernet_r50_4xb4-160k_ade20k-512x512.py'),
}


@pytest.fixture(scope='session')
def cost_of_config() -> Callable[..., ModelCost]:
    """`cost_of_config('configs/mila/mila-t_8xb128_in1k.py', shape)`; the default shape is that of
    the paper.
    """
    counted = cache(count_beside_papers)

    def cost(config: str, shape: tuple[int, int] | None = None) -> ModelCost:
        rows = rows_of_config(ROOT / config)
        return counted(ROOT / config, shape or (rows[0].shape if rows else None))

    return cost


@pytest.fixture(scope='session')
def known_model() -> Callable[[str, str], ConfigDict]:
    """`known_model('mask-rcnn', 'swin-t')` gives the `model` of a config; Cascade has Swin's box
    heads.
    """

    def model_of(kind: str, backbone: str) -> ConfigDict:
        library, path = KINDS[kind]
        model = Config.fromfile(Path(library.__file__).parent / '.mim' / 'configs' / path).model
        cfg, channels = BACKBONES[backbone]
        model.backbone = ConfigDict(cfg)
        if library is mmseg:
            model.pretrained = None
            model.decode_head.in_channels, model.auxiliary_head.in_channels = channels, channels[2]
        else:
            model.neck.in_channels = channels
        for head in model.roi_head.bbox_head if kind == 'cascade-mask-rcnn' else ():
            head.update(
                type='ConvFCBBoxHead',
                num_shared_convs=4,
                num_shared_fcs=1,
                conv_out_channels=256,
                norm_cfg=dict(type='SyncBN'),
                reg_class_agnostic=False,
            )
        return model

    return model_of
