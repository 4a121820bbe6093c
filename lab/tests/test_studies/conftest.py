"""A study whose runs train in a moment, and an executor that only pretends to run them."""

import json
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import cv2
import numpy as np
import pytest
import yaml

from mmflatten_lab.studies import driver as driver_module
from mmflatten_lab.studies.configs import config_of
from mmflatten_lab.studies.driver import Driver
from mmflatten_lab.studies.executors import Executor
from mmflatten_lab.studies.folder import RESULT, RUN, StudyFolder, write_json
from mmflatten_lab.studies.runs import FINISHED, StudyRun, digest
from mmflatten_lab.studies.study import Study
from mmflatten_lab.studies.study_file import read_study

REPOSITORY = Path(__file__).parents[3]
CONFIG = """
    _base_ = ['{repository}/configs/_base_/default_runtime.py']
    default_scope = 'mmpretrain'
    model = dict(
        type='ImageClassifier',
        backbone=dict(
            type='mmflatten.FLattenSwin', arch=dict(embed_dims=8, depths=(1, 1), num_heads=(1, 1)),
            attn_types='LS', img_size=32, softmax_window=4, drop_path_rate=0.5, out_indices=(1, )),
        neck=dict(type='GlobalAveragePooling'),
        head=dict(
            type='LinearClsHead', num_classes=2, in_channels=16, topk=(1, ),
            loss=dict(type='CrossEntropyLoss')))
    data_preprocessor = dict(num_classes=2, mean=[127.5] * 3, std=[127.5] * 3, to_rgb=True)
    pipeline = [dict(type='LoadImageFromFile'), dict(type='PackInputs')]
    train_dataloader = dict(
        batch_size=4, num_workers=0, sampler=dict(type='DefaultSampler', shuffle=True),
        dataset=dict(type='CustomDataset', data_root='{data}', pipeline=pipeline))
    val_dataloader = dict(
        batch_size=4, num_workers=0, sampler=dict(type='DefaultSampler', shuffle=False),
        dataset=dict(type='CustomDataset', data_root='{data}', pipeline=pipeline))
    test_dataloader = val_dataloader
    val_evaluator = dict(type='Accuracy', topk=(1, ))
    test_evaluator = val_evaluator
    optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.05, momentum=0.9))
    param_scheduler = [dict(type='CosineAnnealingLR', by_epoch=True, T_max=10)]
    train_cfg = dict(by_epoch=True, max_epochs=10, val_interval=1)
    val_cfg = dict()
    test_cfg = dict()
"""


@pytest.fixture(scope='session')
def tiny_config(tmp_path_factory) -> Path:
    """Two classes of 8 images of 32 x 32; an epoch has 4 iterations."""
    folder = tmp_path_factory.mktemp('tiny')
    draw = np.random.default_rng(0)
    for label, name in enumerate(('dark', 'light')):
        (folder / 'data' / name).mkdir(parents=True)
        for number in range(8):
            image = draw.integers(100 * label, 100 * label + 150, (32, 32, 3), np.uint8)
            cv2.imwrite(str(folder / 'data' / name / f'{number}.png'), image)
    config = folder / 'tiny.py'
    config.write_text(dedent(CONFIG).format(repository=REPOSITORY, data=folder / 'data'))
    return config


@pytest.fixture
def study_file(tiny_config, tmp_path) -> Callable[..., Path]:
    """Write a study of two attentions and two seeds. Arguments replace its fields; None removes
    one.
    """

    def write(**changes: object) -> Path:
        content = dict(
            name='tiny',
            base=str(tiny_config),
            controls='a test of the tool',
            budget=dict(epochs=2),
            metrics=['accuracy/top1'],
            factors=dict(
                attention=dict(
                    focused={'model.backbone.mixers': dict(L=dict(type='FocusedLinearAttention'))},
                    vanilla={
                        'model.backbone.mixers': dict(
                            L=dict(type='LinearAttention', feature_map='relu')
                        )
                    },
                ),
                seed=2,
            ),
        )
        content |= changes
        content = {key: value for key, value in content.items() if value is not None}
        path = tmp_path / 'tiny.yaml'
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        return path

    return write


class FakeExecutor(Executor):
    """Executor whose runs end at once, with a metric or an exit status:
    `outcome(content of run.json)`.
    """

    slots = 2

    def __init__(self, outcome: Callable[[dict], float | int] = lambda run: 50.0) -> None:
        self.outcome, self.submitted, self.withdrawn = outcome, [], []

    def submit(self, folder: Path) -> int:
        self.submitted.append(folder.name)
        run = json.loads((folder / RUN).read_text())
        value = self.outcome(run)
        if isinstance(value, int):
            (folder / 'log.txt').write_text('Traceback\nValueError: the cause\n')
            return value
        done = StudyRun(
            **run['result'], machine=dict(processor='none', gpu='none', torch='2', threads=1)
        )
        done.state, done.metric, done.value = FINISHED, 'accuracy/top1', value
        done.validations, done.cpu_seconds = {'1': value / 2, '2': value}, 3.0
        done.metrics = {done.metric: value}
        write_json(folder / RESULT, done.result())
        return 0

    def withdraw(self, run: str) -> None:
        self.withdrawn.append(run)

    def poll(self, handle: int) -> int:
        return handle

    def cancel(self, handle: int) -> None:
        pass


@pytest.fixture
def fake_executor() -> type:
    return FakeExecutor


@pytest.fixture
def drive(tmp_path, monkeypatch) -> Callable[..., list[StudyRun]]:
    """Drive a study file with a FakeExecutor in the folder `out`; returns the runs."""

    def check_runs(study: Study, runs: list[StudyRun]) -> None:
        for run in runs:
            run.config_hash = digest(config_of(run, study.budget).to_dict())[:12]
            run.params, run.flops, run.shape, run.disk = 10**6, 10**7, (32, 32), 10**6

    def run(
        path: Path,
        executor: FakeExecutor,
        out: str = 'out',
        published: dict | None = None,
        **options: object,
    ) -> list[StudyRun]:
        (tmp_path / out).mkdir(exist_ok=True)
        return Driver(
            read_study(path), StudyFolder(tmp_path / out), executor, lambda line: None, published
        ).run(**options)

    monkeypatch.setattr(driver_module, 'POLL', 0)
    monkeypatch.setattr(driver_module, 'check_runs', check_runs)
    return run
