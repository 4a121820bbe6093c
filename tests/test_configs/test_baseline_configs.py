"""Baselines of other authors in the papers' tables: parameters and training."""

import pytest

from mmflatten.measure.flops.meta import build_on_meta
from mmflatten.measure.papers.tables import PaperRow, paper_rows


@pytest.mark.parametrize(
    'row',
    [
        pytest.param(row, id=row.config)
        for row in paper_rows()
        if row.label in ('focal 5', 'focal 10')
        and 'resnet/' in row.config
        and 'reppoints' not in row.config
    ],
)
def test_trainable_parameters_of_resnets_equal_those_of_focal(row: PaperRow, load_config) -> None:
    config = load_config(row.config.removeprefix('configs/'))
    trainable = [
        parameter
        for parameter in build_on_meta(config.model, config.default_scope).parameters()
        if parameter.requires_grad
    ]
    decimals = len(row.cells['params_m'].partition('.')[2])
    assert round(sum(parameter.numel() for parameter in trainable) / 1e6, decimals) == float(
        row.cells['params_m']
    )


def test_resnet_recipe_has_no_mixing_or_smoothing(load_config) -> None:
    config = load_config('resnet/resnet50_8xb32_in1k.py')
    classifier = build_on_meta(config.model, config.default_scope)
    assert classifier.data_preprocessor.batch_augments is None
    assert classifier.head.loss_module.label_smooth_val == 0
    assert [step.type for step in config.train_pipeline] == [
        'LoadImageFromFile',
        'RandomResizedCrop',
        'RandomFlip',
        'PackInputs',
    ]
    assert classifier.train().backbone.bn1.training, 'batch norms learn from scratch'


@pytest.mark.parametrize(
    'name, rate, batch',
    [
        ('resnet/retinanet_r50_fpn_1x_coco', 1e-2, 16),
        ('resnet/mask-rcnn_r50_fpn_ms-3x_coco', 2e-2, 16),
        ('flatten_pvt/retinanet_pvt-s_fpn_ms-3x_coco', 1e-4, 16),
        ('flatten_pvt/mask-rcnn_pvt-m_fpn_ms-3x_coco', 2e-4, 16),
        ('flatten_pvt/mask-rcnn_pvt-l_fpn_8xb1-1x_coco', 2e-4 / 1.4, 8),
        ('flatten_swin/swin-b_in22k-pre_16xb64_in1k-384px', 4e-5, 1024),
    ],
)
def test_learning_rate_of_batch(name: str, rate: float, batch: int, load_config) -> None:
    config = load_config(f'{name}.py')
    assert config.optim_wrapper.optimizer.lr == pytest.approx(rate)
    assert config.auto_scale_lr.base_batch_size == batch
