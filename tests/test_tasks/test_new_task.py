"""A fifth task, in a package outside of the tree: no line of mmflatten changes for it."""

import json
import shutil
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from mmflatten import tasks
from mmflatten.cli import analyze, flops, predict, report, test, train

CONFIG = """
custom_imports = dict(imports=['depth_package'])
default_scope = 'depth_package'
model = dict(
    type='LinearDepth', channels=16, backbone=dict(
        type='mmflatten.FLattenSwin', arch=dict(embed_dims=16, depths=[1], num_heads=[1]),
        attn_types='L', out_indices=(0,)))
train_dataloader = dict(
    batch_size=2, sampler=dict(type='DefaultSampler', shuffle=True),
    dataset=dict(type='Ramps', data_root={data!r}))
val_dataloader = test_dataloader = dict(
    batch_size=1, sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(type='Ramps', data_root={data!r}))
val_evaluator = test_evaluator = dict(type='DepthError')
train_cfg, val_cfg, test_cfg = dict(by_epoch=True, max_epochs=8, val_interval=8), dict(), dict()
optim_wrapper = dict(optimizer=dict(type='AdamW', lr=0.02))
default_hooks = dict(logger=dict(type='LoggerHook', interval=1))
randomness = dict(seed=0)
"""


@pytest.fixture
def depth(tmp_path, monkeypatch):
    """The package on the path, images and a config; everything is forgotten afterwards."""
    shutil.copytree(Path(__file__).parent / 'depth_package', tmp_path / 'depth_package')
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    (tmp_path / 'images').mkdir()
    for number in range(8):
        ramp = np.tile(np.linspace(0, 30 * number, 48, dtype=np.uint8), (32, 1))
        cv2.imwrite(str(tmp_path / 'images' / f'{number}.png'), np.dstack([ramp] * 3))
    (tmp_path / 'depth.py').write_text(CONFIG.format(data=str(tmp_path / 'images')))
    yield tmp_path
    tasks.tasks().pop('depth', None)
    for name in set(sys.modules) - before:
        if name.partition('.')[0] == 'depth_package':
            del sys.modules[name]


def test_task_of_another_package_trains_tests_predicts_counts_and_reports(depth, capsys):
    config, run = str(depth / 'depth.py'), depth / 'run'
    assert train.main([config, '--work-dir', str(run)]) == 0, capsys.readouterr().err
    checkpoint = str(run / 'epoch_8.pth')
    assert (
        test.main([config, checkpoint, '--work-dir', str(run), '--out', str(run / 'results.pkl')])
        == 0
    )
    error = json.loads((run / 'results.json').read_text())['metrics']['abs_error']
    assert error < 0.2  # the mean brightness is 0.2

    assert (
        predict.main([config, checkpoint, str(depth / 'images'), '--out', str(depth / 'found')])
        == 0
    )
    assert np.load(depth / 'found' / 'depth' / '7.npy').shape == (32, 48)
    assert len(list((depth / 'found' / 'drawings').glob('*.png'))) == 8

    assert analyze.main([str(run / 'results.pkl'), '--out', str(depth / 'analysis')]) == 0
    found = json.loads((depth / 'analysis' / 'analysis.json').read_text())
    assert found['task'] == 'depth'
    assert found['summary']['abs_error'] == pytest.approx(error, abs=1e-5)

    assert flops.main([config, '--json', str(depth / 'flops.json')]) == 0
    (cost,) = json.loads((depth / 'flops.json').read_text())
    assert cost['shape'] == [64, 96] and cost['params'] > 16

    assert report.main([str(run), '--out', str(depth / 'report.html')]) == 0
    page = (depth / 'report.html').read_text()
    assert 'LinearDepth with FLattenSwin' in page
    assert 'abs_error' in page
    assert page.count('data:image/webp') == 8
