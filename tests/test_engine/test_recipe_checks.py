"""`mmflatten check`: mistakes in configs, the report of one screen, and the exit status."""

import copy
import json
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import cv2
import numpy as np
import pytest
from mmengine.config import Config, ConfigDict

from mmflatten.engine.recipe.checks import CHECKS, warnings_of
from mmflatten.engine.recipe.settings import gpus_of
from mmflatten.engine.recipe.training import Training

CONFIGS = Path(__file__).parents[2] / 'configs'
# By their loop: epochs or iterations; the first has no pre-trained weights, no averages, and
# validates.
CLASSIFIER = 'digits/flatten-swin-nano_digits.py'
DETECTOR = 'digits/mask-rcnn_flatten-swin-nano_fpn_digits.py'
SEGMENTOR = 'digits/semantic-fpn_flatten-swin-nano_digits.py'
# its classes are those of the data set's type
COCO_DETECTOR = 'flatten_swin/retinanet_swin-t_fpn_1x_coco.py'
MALA = 'ravlt/mala-deit-s_8xb128_in1k.py'
EMA = {'custom_hooks': [dict(type='EMAHook', momentum=0.01)]}

MISTAKES = [
    ('batch', SEGMENTOR, {'train_dataloader.batch_size': 4}),
    ('batch', SEGMENTOR, {'optim_wrapper.accumulative_counts': 2}),
    ('schedule', SEGMENTOR, {'param_scheduler.1.by_epoch': True}),
    (
        'schedule',
        CLASSIFIER,
        {'param_scheduler.1': dict(type='CosineAnnealingLR', by_epoch=False, end=15)},
    ),
    (
        'schedule',
        CLASSIFIER,
        {'param_scheduler.1': dict(type='CosineAnnealingLR', T_max=10, end=15)},
    ),
    (
        'schedule',
        CLASSIFIER,
        {'param_scheduler.1': dict(type='CosineAnnealingLR', T_max=30, begin=0, end=15)},
    ),
    ('schedule', CLASSIFIER, {'param_scheduler.0.end': 20_000}),
    (
        'schedule',
        DETECTOR,
        {
            'train_cfg.max_epochs': 1,
            'param_scheduler.1.end': 1,
            'param_scheduler.0.end': 300,
            'default_hooks.checkpoint.interval': 1,
        },
    ),
    ('schedule', DETECTOR, {'train_cfg.max_epochs': 12}),
    ('schedule', DETECTOR, {'train_cfg.max_epochs': 3}),
    ('schedule', CLASSIFIER, {'param_scheduler.1': dict(type='MultiStepLR', milestones=[8, 16])}),
    (
        'schedule',
        CLASSIFIER,
        {'param_scheduler': [dict(type='OneCycleLR', eta_max=0.01, total_steps=900)]},
    ),
    ('ema-length', CLASSIFIER, {'custom_hooks': [dict(type='EMAHook', momentum=1e-4)]}),
    ('ema-length', CLASSIFIER, {'custom_hooks': [dict(type='EMAHook', momentum=0.9999)]}),
    ('frozen', CLASSIFIER, {'model.backbone.frozen_stages': 1}),
    ('checkpoints', SEGMENTOR, {'default_hooks.checkpoint.interval': 4000}),
    ('checkpoints', SEGMENTOR, {'default_hooks.checkpoint': None}),
    ('classes', SEGMENTOR, {'model.decode_head.num_classes': 10}),
    ('classes', DETECTOR, {'model.roi_head.bbox_head.num_classes': 80}),
    ('classes', COCO_DETECTOR, {'model.bbox_head.num_classes': 20}),
    (
        'batch-norm',
        SEGMENTOR,
        {
            'model.decode_head.norm_cfg': dict(type='BN'),
            'train_dataloader.batch_size': 1,
            'optim_wrapper.accumulative_counts': 8,
        },
    ),
    ('larger-images', MALA, {'test_dataloader.dataset.pipeline.2.crop_size': 448}),
    (
        'larger-images',
        'agent/agent-deit-t_8xb128_in1k.py',
        {
            'model.backbone.linear_attention.kernel_size': None,
            'test_dataloader.dataset.pipeline.2.crop_size': 448,
        },
    ),
    (
        'larger-images',
        MALA,
        {
            'model.backbone.linear_attention': dict(
                _delete_=True, type='InLineAttention', image_conv=False
            ),
            'test_dataloader.dataset.pipeline.2.crop_size': 448,
        },
    ),
    (
        'larger-images',
        MALA,
        {
            'model.backbone.linear_attention.gated': False,
            'model.backbone.linear_attention.rotary': False,
            'test_dataloader.dataset.pipeline.2.crop_size': 448,
        },
    ),
    (
        'larger-images',
        MALA,
        {
            'train_dataloader.dataset.pipeline.1': dict(
                type='RandomResize', scale=[(400, 96), (400, 112)], keep_ratio=True
            ),
            'test_dataloader.dataset.pipeline.2.crop_size': 224,
        },
    ),
    (
        'larger-images',
        MALA,
        {
            'train_dataloader.dataset.pipeline.1': dict(
                type='RandomChoiceResize', scales=[(96, 400), (112, 400)]
            ),
            'test_dataloader.dataset.pipeline.2.crop_size': 224,
        },
    ),
]
SHIPPED = [
    CLASSIFIER,
    DETECTOR,
    SEGMENTOR,
    'digits/psmnet-tiny_digits-stereo.py',
    'factorized/mask-rcnn_r101_fpn_32xb1-24e_coco.py',
    'flatten_cswin/flatten-cswin-t_8xb256_in1k.py',
    'focal/mask-rcnn_focal-t_fpn_1x_coco.py',
    MALA,
    'ravlt/semantic-fpn_ravlt-t_8xb2-40k_ade20k-512x512.py',
    'l2vit/l2vit-b_32xb128_in1k.py',
    'l2vit/upernet_l2vit-t_8xb2-160k_ade20k-512x512.py',
    'psmnet/psmnet_4xb3-300e_kitti2015.py',
]


@cache
def parsed(name: str) -> Config:
    return Config.fromfile(CONFIGS / name)


def training(name: str, options: dict[str, Any] | None = None, **kwargs: Any) -> Training:
    cfg = copy.deepcopy(parsed(name))
    for key, value in (options or {}).items():
        if key == 'param_scheduler.1':  # the whole scheduler
            cfg.param_scheduler[1] = ConfigDict(value)
        else:
            cfg.merge_from_dict({key: value})
    return Training(cfg, **{'gpus': gpus_of(parsed(name)), **kwargs})


@pytest.mark.parametrize('name, config, options', MISTAKES)
def test_check_warns_of_the_mistake_alone(name, config, options):
    assert {check for check, _ in warnings_of(training(config, options))} == {name}


def test_check_takes_larger_images_without_positions_beside_a_local_term():
    assert (
        warnings_of(
            training(
                MALA,
                {
                    'model.backbone.linear_attention.rotary': False,
                    'test_dataloader.dataset.pipeline.2.crop_size': 448,
                },
            )
        )
        == []
    )


def test_check_names_limits_below_the_objects_of_an_image():
    found = training(DETECTOR, {'model.test_cfg.rcnn.max_per_img': 5})
    found.most_objects = 8  # read from the annotation file, which configs of this test do not have
    ((check, text),) = warnings_of(found)
    assert check == 'objects' and 'model.test_cfg.rcnn.max_per_img' in text and '0.62' in text


def test_check_counts_objects_in_real_files(tool, tmp_path, capsys):
    """Through a wrapper; crowds are not among the objects that training needs boxes for."""
    cv2.imwrite(str(tmp_path / 'a.png'), np.zeros((64, 64, 3), np.uint8))
    objects = [
        dict(id=n + 1, image_id=1, category_id=1, bbox=[n, n, 9, 9], area=81, iscrowd=int(n > 24))
        for n in range(30)
    ]
    (tmp_path / 'ann.json').write_text(
        json.dumps(
            dict(
                images=[dict(id=1, file_name='a.png', width=64, height=64)],
                annotations=objects,
                categories=[dict(id=1, name='cell')],
            )
        )
    )
    (tmp_path / 'mine.py').write_text(f"""
_base_ = ['{CONFIGS / DETECTOR}']
model = dict(roi_head=dict(bbox_head=dict(num_classes=1), mask_head=dict(num_classes=1)))
train_dataloader = dict(dataset=dict(_delete_=True, type='RepeatDataset', times=40, dataset=dict(
    type='mmflatten.CheckedCocoDataset', data_root='{tmp_path}', ann_file='ann.json',
    data_prefix=dict(img=''), metainfo=dict(classes=('cell', )), pipeline=[])))
""")
    assert tool.main([str(tmp_path / 'mine.py')]) == 1
    out = capsys.readouterr().out
    assert (
        'warning (objects): model.test_cfg.rcnn.max_per_img: an image has 25 objects, got 20' in out
    )


def test_every_check_has_a_mistake_here():
    assert {name for name, _, _ in MISTAKES} | {'objects'} == set(CHECKS)


@pytest.mark.parametrize('config', SHIPPED)
def test_check_accepts_shipped_configs(config):
    assert warnings_of(training(config)) == []


@pytest.mark.full
@pytest.mark.parametrize(
    'config', sorted(path.relative_to(CONFIGS).as_posix() for path in CONFIGS.glob('[!_]*/*.py'))
)
def test_no_shipped_recipe_has_a_warning(config):
    assert warnings_of(training(config)) == []


def test_batch_check_accepts_a_scaled_rate():
    config = 'flatten_swin/mask-rcnn_swin-t_fpn_1x_coco.py'
    assert [name for name, _ in warnings_of(training(config, gpus=4))] == ['batch']
    scaled = training(config, {'auto_scale_lr.enable': True}, gpus=4)
    assert warnings_of(scaled) == [] and scaled.batch == 8
    # a batch of 16 in the config, with AdamW
    assert scaled.lr_factor == pytest.approx(0.5**0.5)
    accumulated = training(
        config, {'auto_scale_lr.enable': True, 'optim_wrapper.accumulative_counts': 4}, gpus=4
    )
    assert warnings_of(accumulated) == [] and accumulated.batch == 32
    assert accumulated.lr_factor == pytest.approx(2**0.5)
    assert scaled.epoch_length == 14_659  # 117,266 images on 4 GPUs, 2 at a time


def test_checkpoint_size_includes_averages_and_optimizer():
    plain = training(CLASSIFIER).checkpoints
    averaged = training(CLASSIFIER, EMA).checkpoints
    weights = training(
        CLASSIFIER, {'default_hooks.checkpoint.save_optimizer': False}
    ).checkpoints.size
    assert averaged.size - plain.size == weights and 2.9 * weights < plain.size < 3.1 * weights
    assert plain.interval == 3 and plain.most == 4 * plain.size


@pytest.fixture(scope='module')
def tool(load_tool) -> ModuleType:
    return load_tool('check_recipe')


def test_report_fits_one_screen_and_warnings_set_the_status(tool, capsys):
    config = str(CONFIGS / DETECTOR)
    assert tool.main([config, '--dataset-size', '4000']) == 0
    out = capsys.readouterr().out
    assert '4 epochs of 1,000' in out
    assert '16,000 seen' in out
    assert '3e-05' in out
    assert 'no warnings' in out
    assert len(out.splitlines()) < 30
    assert tool.main([config, '--gpus', '2']) == 1
    assert 'warning (batch)' in capsys.readouterr().out


def test_report_counts_frozen_parameters(tool, capsys):
    assert (
        tool.main(
            [
                str(CONFIGS / CLASSIFIER),
                '--cfg-options',
                'model.backbone.frozen_stages=1',
                'load_from=a.pth',
                'optim_wrapper.paramwise_cfg.norm_decay_mult=0',
            ]
        )
        == 0
    )
    captured = capsys.readouterr()
    assert re.search(r'frozen +[1-9]', captured.out)
    assert 'requires_grad' not in captured.out + captured.err


@pytest.mark.parametrize(
    'options, words',
    [
        (
            ['train_dataloader.dataset.data_root=elsewhere'],
            ('train_dataloader.dataset', '--dataset-size'),
        ),
        (['optim_wrapper=None'], ('optim_wrapper',)),
        (
            ['auto_scale_lr.base_batch_size=0', 'auto_scale_lr.enable=True'],
            ('auto_scale_lr.base_batch_size',),
        ),
    ],
)
def test_missing_fields_are_named(tool, capsys, options, words):
    assert tool.main([str(CONFIGS / CLASSIFIER), '--cfg-options', *options]) == 1
    error = capsys.readouterr().err
    assert all(word in error for word in words)
