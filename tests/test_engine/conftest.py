"""A classification run small enough to train in seconds: its images, its config, and ways to start the tools."""
import importlib.util
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from mmengine.logging import MessageHub, MMLogger
from mmengine.registry import DefaultScope
from mmengine.visualization import Visualizer

REPOSITORY = Path(__file__).parents[2]
CLASSES = ('dark', 'light')
IMAGES_PER_CLASS = 8

# 16 images in batches of 4: an epoch has 4 iterations. Drop path, flips and crops draw random numbers from PyTorch and
# NumPy; momentum, warm-up and moving average carry state from step to step.
CONFIG = '''
    _base_ = ['{repository}/configs/_base_/default_runtime.py']
    default_scope = 'mmpretrain'
    model = dict(
        type='ImageClassifier',
        backbone=dict(type='mmflatten.FLattenSwin', arch=dict(embed_dims=8, depths=(1, 1), num_heads=(1, 1)),
                      attn_types='LS', img_size=32, drop_path_rate=0.5, out_indices=(1, )),
        neck=dict(type='GlobalAveragePooling'),
        head=dict(type='LinearClsHead', num_classes=2, in_channels=16, topk=(1, ),
                  loss=dict(type='CrossEntropyLoss')))
    data_preprocessor = dict(num_classes=2, mean=[127.5] * 3, std=[127.5] * 3, to_rgb=True)
    pipeline = [
        dict(type='LoadImageFromFile'),
        dict(type='RandomCrop', crop_size=32, padding=4),
        dict(type='RandomFlip', prob=0.5),
        dict(type='PackInputs')]
    test_pipeline = [dict(type='LoadImageFromFile'), dict(type='PackInputs')]
    train_dataloader = dict(
        batch_size=4, num_workers=0, sampler=dict(type='{sampler}', shuffle=True),
        dataset=dict(type='CustomDataset', data_root='{data}', pipeline=pipeline))
    val_dataloader = dict(
        batch_size=4, num_workers=0, sampler=dict(type='DefaultSampler', shuffle=False),
        dataset=dict(type='CustomDataset', data_root='{data}', pipeline=test_pipeline))
    test_dataloader = val_dataloader
    val_evaluator = dict(type='Accuracy', topk=(1, ))
    test_evaluator = val_evaluator
    optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.05, momentum=0.9))
    custom_hooks = [dict(type='EMAHook', momentum=0.1)]
    val_cfg = dict()
    test_cfg = dict()
    work_dir = '{work_dir}'
'''
BY_EPOCH = '''
    param_scheduler = [
        dict(type='LinearLR', start_factor=0.1, by_epoch=False, end=6),
        dict(type='CosineAnnealingLR', by_epoch=True, T_max=4, convert_to_iter_based=True)]
    train_cfg = dict(by_epoch=True, max_epochs=4, val_interval=1)
'''
BY_ITERATION = '''
    param_scheduler = [
        dict(type='LinearLR', start_factor=0.1, by_epoch=False, end=6),
        dict(type='CosineAnnealingLR', by_epoch=False, T_max=16)]
    train_cfg = dict(by_epoch=False, max_iters=16, val_interval=3)
    log_processor = dict(by_epoch=False)
'''


class TinyRun:
    """A folder with images and a config; `options` below are `--cfg-options`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / 'data'
        self.config = folder / 'tiny.py'
        self.work_dir = folder / 'run'
        rng = np.random.default_rng(0)
        for label, name in enumerate(CLASSES):
            (self.data / name).mkdir(parents=True)
            for i in range(IMAGES_PER_CLASS):
                image = rng.integers(0, 128, (32, 32, 3)) + 100 * label
                cv2.imwrite(str(self.data / name / f'{i}.png'), image.astype(np.uint8))
        self.write_config()

    def write_config(self, by_epoch: bool = True, extra: str = '') -> None:
        sampler = 'DefaultSampler' if by_epoch else 'InfiniteSampler'
        text = CONFIG.format(repository=REPOSITORY, data=self.data, sampler=sampler, work_dir=self.work_dir)
        self.config.write_text(dedent(text) + dedent(BY_EPOCH if by_epoch else BY_ITERATION) + dedent(extra))

    @property
    def images(self) -> list[Path]:
        return sorted(self.data.glob('*/*.png'))


@pytest.fixture
def tiny(tmp_path: Path) -> TinyRun:
    return TinyRun(tmp_path)


@pytest.fixture(scope='session')
def start_tool():
    """Start a tool as a user does; returns the running process, its output in pipes."""

    def start(tool: str, *arguments: object, extra_path: object = '', **environment: str) -> subprocess.Popen:
        env = {**os.environ, 'PYTHONPATH': f'{REPOSITORY}:{extra_path}', 'OMP_NUM_THREADS': '1', **environment}
        command = [sys.executable, str(REPOSITORY / 'tools' / tool), *map(str, arguments)]
        return subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                preexec_fn=_listen_to_ctrl_c)

    return start


def _listen_to_ctrl_c() -> None:
    # A shell starts what runs in its background deaf to SIGINT, and children inherit that.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture(scope='session')
def tools():
    """The tools' main functions, to be called in this process: `tools.train([...])` returns the exit status."""
    loaded = SimpleNamespace()
    for name in ('train', 'test'):
        spec = importlib.util.spec_from_file_location(f'{name}_tool', REPOSITORY / 'tools' / f'{name}.py')
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        setattr(loaded, name, partial(_call, module.main))
    return loaded


def _call(main, argv: list) -> int:
    # Runs are named by the second; what an earlier run of the same second left behind must not be found.
    for kind in (MMLogger, MessageHub, Visualizer, DefaultScope):
        kind._instance_dict.clear()
    return main([str(word) for word in argv])
