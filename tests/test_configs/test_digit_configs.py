"""The configs of the digit scenes, run by the tools' own code on real files: training, validation, a saved model."""
from pathlib import Path

import pytest
import torch

from mmflatten.datasets.digits.build import DigitSceneOptions, build_digit_scenes
from mmflatten.engine.setup import build_runner, load_config

DIGITS = Path(__file__).parents[2] / 'configs' / 'digits'
SCENES = 8
FIGURES = {
    'flatten-swin-nano_digits': ('accuracy/top1', 'accuracy/top5'),
    'mask-rcnn_flatten-swin-nano_fpn_digits': ('coco/bbox_mAP', 'coco/segm_mAP'),
    'retinanet_flatten-swin-nano_fpn_digits': ('coco/bbox_mAP', ),
    'atss_flatten-swin-nano_fpn_digits': ('coco/bbox_mAP', ),
    'upernet_flatten-swin-nano_digits': ('mIoU', 'mAcc', 'aAcc'),
    'semantic-fpn_flatten-swin-nano_digits': ('mIoU', 'mAcc', 'aAcc'),
}


@pytest.fixture(scope='module')
def digit_root(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp('data') / 'digits'
    build_digit_scenes(root, DigitSceneOptions(train=SCENES, val=4, size=96, seed=0))
    return root


def test_every_digit_config_is_run_here():
    assert {path.stem for path in DIGITS.glob('*.py') if not path.stem.startswith('psmnet')} == set(FIGURES)


@pytest.mark.parametrize('name', FIGURES)
def test_a_short_training_validates_and_saves(name, digit_root, tmp_path):
    iterations = 'nano_digits' in name and name != 'flatten-swin-nano_digits'
    length = dict(max_iters=2, val_interval=2) if iterations else dict(max_epochs=1, val_interval=1)
    options = {f'train_cfg.{key}': value for key, value in length.items()}
    for split in ('train', 'val', 'test'):
        options |= {f'{split}_dataloader.dataset.data_root': str(digit_root), f'{split}_dataloader.num_workers': 0,
                    f'{split}_dataloader.persistent_workers': False}
    if 'fpn_digits' in name:
        options |= {f'{split}_evaluator.ann_file': str(digit_root / 'annotations' / 'instances_val.json')
                    for split in ('val', 'test')}
    if name.startswith(('retinanet', 'atss')):
        options['model.test_cfg.score_thr'] = 0.0  # after a few steps no score passes the usual one
    config = load_config(str(DIGITS / f'{name}.py'), options, str(tmp_path))
    config.experiment_name = name
    if name == 'flatten-swin-nano_digits':
        config.train_dataloader.batch_size = 8

    runner = build_runner(config)
    runner.train()
    metrics = runner.test()

    assert set(FIGURES[name]) <= set(metrics)
    saved = torch.load((tmp_path / 'last_checkpoint').read_text(), weights_only=False)['state_dict']
    assert all(torch.isfinite(value).all() for value in saved.values())
    assert saved.keys() == runner.model.state_dict().keys()
