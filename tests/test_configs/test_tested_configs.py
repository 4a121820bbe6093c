"""What testing a config of each task reports, as it is and with test-time augmentation."""
from pathlib import Path

import pytest
import torch
from mmengine.model import revert_sync_batchnorm
from mmengine.registry import MODELS

from mmflatten.engine.test import test as run_test
from mmflatten.engine.tta import add_tta

CONFIGS = Path(__file__).parents[2] / 'configs' / 'flatten_swin'
SIZES = ('mAP', 'mAP_50', 'mAP_75', 'mAP_s', 'mAP_m', 'mAP_l')
EXPECTED = {
    'flatten-swin-t_8xb128_in1k': {'accuracy/top1', 'accuracy/top5'},
    'mask-rcnn_flatten-swin-t_fpn_1x_coco': {f'coco/{kind}_{size}' for kind in ('bbox', 'segm') for size in SIZES},
    'upernet_flatten-swin-t_8xb2-160k_ade20k-512x512': {'mIoU', 'mAcc', 'aAcc'},
}


@pytest.mark.parametrize('augmented', [False, True])
@pytest.mark.parametrize('name', EXPECTED)
def test_every_task_reports_its_metrics(name, augmented, short_run, tmp_path):
    config = short_run(CONFIGS / f'{name}.py')
    model = dict(config.model, data_preprocessor=config.model.get('data_preprocessor') or config.data_preprocessor)
    torch.save(dict(state_dict=revert_sync_batchnorm(MODELS.build(model)).state_dict()), tmp_path / 'model.pth')
    if augmented:
        add_tta(config)
    metrics = run_test(config, str(tmp_path / 'model.pth'))
    assert EXPECTED[name] <= metrics.keys()
    assert all(-1 <= metrics[metric] <= 100 for metric in EXPECTED[name])
    if 'mIoU' in metrics:
        log = next((tmp_path / 'run').rglob('*.log')).read_text()
        # A line for each class: name, IoU, accuracy.
        assert all(f'| {label} ' in ' '.join(log.replace('|', ' | ').split()) for label in ('wall', 'building', 'sky'))
