"""A classification run small enough to train in seconds: its images, its config, and ways to start
the tools.
"""

import importlib
import importlib.util
import json
import multiprocessing
import os
import socket
from functools import partial
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
import torch
from mmengine.logging import MessageHub, MMLogger
from mmengine.registry import DefaultScope
from mmengine.visualization import Visualizer

REPOSITORY = Path(__file__).parents[2]
CLASSES = ('dark', 'light')
IMAGES_PER_CLASS = 8

# 16 images in batches of 4: an epoch has 4 iterations. Drop path, flips and crops draw random
# numbers from PyTorch and NumPy; momentum, warm-up and moving average carry state from step to
# step.
CONFIG = """
    _base_ = ['{repository}/configs/_base_/default_runtime.py']
    default_scope = 'mmpretrain'
    model = dict(
        type='ImageClassifier',
        backbone=dict(
            type='mmflatten.FLattenSwin', arch=dict(embed_dims=8, depths=(1, 1), num_heads=(1, 1)),
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
"""
BY_EPOCH = """
    param_scheduler = [
        dict(type='LinearLR', start_factor=0.1, by_epoch=False, end=6),
        dict(type='CosineAnnealingLR', by_epoch=True, T_max=4, convert_to_iter_based=True)]
    train_cfg = dict(by_epoch=True, max_epochs=4, val_interval=1)
"""
BY_ITERATION = """
    param_scheduler = [
        dict(type='LinearLR', start_factor=0.1, by_epoch=False, end=6),
        dict(type='CosineAnnealingLR', by_epoch=False, T_max=16)]
    train_cfg = dict(by_epoch=False, max_iters=16, val_interval=3)
    log_processor = dict(by_epoch=False)
"""
# The backbone of a detector and a segmentor.
PYRAMID = """dict(_delete_=True, type='mmflatten.FLattenSwin', img_size=64, attn_types='LLSS',
                      arch=dict(embed_dims=8, depths=(1, 1, 1, 1), num_heads=(1, 1, 1, 1)))"""
DETECTION = """
    _base_ = ['{bases}/models/retinanet_fpn.py', '{bases}/default_runtime.py']
    default_scope = 'mmdet'
    model = dict(
        backbone={backbone},
        neck=dict(in_channels=[8, 16, 32, 64], out_channels=8),
        bbox_head=dict(num_classes=2, in_channels=8, feat_channels=8, stacked_convs=1))
    pipeline = [
        dict(type='LoadImageFromFile'),
        dict(type='LoadAnnotations', with_bbox=True),
        dict(type='PackDetInputs')]
    train_dataloader = dict(
        batch_size=2, num_workers=0, sampler=dict(type='DefaultSampler', shuffle=True),
        dataset=dict(
            type='mmflatten.CheckedCocoDataset', data_root='{data}', ann_file='instances.json',
            data_prefix=dict(img='images'), metainfo=dict(classes=('cat', 'dog')),
            pipeline=pipeline))
    optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.001))
    train_cfg = dict(by_epoch=True, max_epochs=1)
    work_dir = '{folder}/run'
"""
SEGMENTATION = """
    _base_ = ['{bases}/models/semantic-fpn.py', '{bases}/default_runtime.py']
    default_scope = 'mmseg'
    model = dict(
        data_preprocessor=dict(size=(64, 64)),
        backbone={backbone},
        neck=dict(in_channels=[8, 16, 32, 64], out_channels=8),
        decode_head=dict(in_channels=[8] * 4, channels=8, num_classes=3))
    pipeline = [
        dict(type='LoadImageFromFile'), dict(type='LoadAnnotations'), dict(type='PackSegInputs')]
    train_dataloader = dict(
        batch_size=2, num_workers=0, sampler=dict(type='InfiniteSampler', shuffle=True),
        dataset=dict(type='BaseSegDataset', data_root='{data}', img_suffix='.png',
                     metainfo=dict(classes=('a', 'b', 'c')),
                     data_prefix=dict(img_path='images', seg_map_path='maps'), pipeline=pipeline))
    test_dataloader = dict(train_dataloader, sampler=dict(type='DefaultSampler', shuffle=False))
    test_evaluator = dict(type='IoUMetric')
    test_cfg = dict(type='TestLoop')
    optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.001))
    train_cfg = dict(type='IterBasedTrainLoop', max_iters=1)
    work_dir = '{folder}/run'
"""


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
        text = CONFIG.format(
            repository=REPOSITORY, data=self.data, sampler=sampler, work_dir=self.work_dir
        )
        self.config.write_text(
            dedent(text) + dedent(BY_EPOCH if by_epoch else BY_ITERATION) + dedent(extra)
        )

    @property
    def images(self) -> list[Path]:
        return sorted(self.data.glob('*/*.png'))


@pytest.fixture
def tiny(tmp_path: Path) -> TinyRun:
    return TinyRun(tmp_path)


@pytest.fixture(scope='session')
def tools():
    """The tools' main functions, called in this process: `tools.train([...])` returns the exit
    status.
    """
    torch.set_num_threads(1)  # a process forked later would deadlock in OpenMP
    loaded = SimpleNamespace()
    for name in ('train', 'test'):
        spec = importlib.util.spec_from_file_location(
            f'{name}_tool', REPOSITORY / 'tools' / f'{name}.py'
        )
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        setattr(loaded, name, partial(_call, module.main))
    return loaded


def _call(main, argv: list) -> int:
    # Runs are named by the second; what an earlier run of the same second left behind must not be
    # found.
    for kind in (MMLogger, MessageHub, Visualizer, DefaultScope):
        kind._instance_dict.clear()
    return main([str(word) for word in argv])


@pytest.fixture
def train_on(tools):
    """`train_on(processes, arguments)` runs the tool on processes forked from this one and returns
    their statuses.
    """
    importlib.import_module('torch._dynamo')  # once, not in each process

    def work(rank: int, argv: tuple, **environment: str) -> None:
        os.environ.update(environment, RANK=str(rank), LOCAL_RANK=str(rank))
        status = 1
        try:
            status = tools.train([*argv, '--launcher', 'pytorch'])
        finally:
            os._exit(status)

    def run(processes: int, *argv: object) -> list[int]:
        with socket.socket() as probe:
            probe.bind(('127.0.0.1', 0))
            port = probe.getsockname()[1]
        environment = dict(
            WORLD_SIZE=str(processes), MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port)
        )
        fork = multiprocessing.get_context('fork')
        workers = [
            fork.Process(target=work, args=(rank, argv), kwargs=environment)
            for rank in range(processes)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return [worker.exitcode for worker in workers]

    return run


@pytest.fixture
def fails(tools, capsys):
    """`fails('train', arguments)`: the tool ends with status 1 and this last line, without a
    traceback before it.
    """

    def run(tool: str, *argv: object) -> str:
        capsys.readouterr()
        assert getattr(tools, tool)(argv) == 1
        errors = capsys.readouterr().err
        assert 'Traceback' not in errors
        return errors.rstrip().splitlines()[-1]

    return run


@pytest.fixture(scope='session')
def trained(tmp_path_factory, tools) -> Path:
    """A checkpoint of one epoch, which any `TinyRun` can test, fine-tune and resume."""
    run = TinyRun(tmp_path_factory.mktemp('trained'))
    once = ['--cfg-options', 'train_cfg.max_epochs=1']
    assert tools.train([run.config, *once, '--no-validate']) == 0
    return run.work_dir / 'epoch_1.pth'


class Scenes:
    """Two images of 64 x 64 with a box and a label map each, and a config of a detector or
    segmentor for them.
    """

    def __init__(self, folder: Path, text: str) -> None:
        self.folder, self.data, self.config = folder, folder / 'data', folder / 'config.py'
        self.annotations = self.data / 'instances.json'
        for name, image in (
            ('images', np.full((64, 64, 3), 90, np.uint8)),
            ('maps', np.ones((64, 64), np.uint8)),
        ):
            (self.data / name).mkdir(parents=True)
            for i in (1, 2):
                cv2.imwrite(str(self.data / name / f'{i}.png'), image)
        self.annotate()
        config = dedent(text).format(
            bases=REPOSITORY / 'configs' / '_base_',
            data=self.data,
            folder=folder,
            backbone=PYRAMID,
        )
        self.config.write_text(config)

    def annotate(self, categories: tuple = ('cat', 'dog'), images: int = 2, **changes) -> None:
        box = dict(id=1, image_id=1, category_id=1, bbox=[4, 4, 20, 20], area=400, iscrowd=0)
        second = dict(box, id=2, image_id=2, category_id=2)
        content = dict(
            images=[
                dict(id=i, file_name=f'{i}.png', width=64, height=64) for i in range(1, images + 1)
            ],
            categories=[dict(id=i, name=name) for i, name in enumerate(categories, 1)],
            annotations=[dict(box, **changes), second][:images],
        )
        self.annotations.write_text(json.dumps(content))


@pytest.fixture
def detection(tmp_path) -> Scenes:
    return Scenes(tmp_path / 'scenes', DETECTION)


@pytest.fixture
def segmentation(tmp_path) -> Scenes:
    return Scenes(tmp_path / 'scenes', SEGMENTATION)
