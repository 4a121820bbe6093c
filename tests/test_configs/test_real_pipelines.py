"""Every config trains an iteration and validates on files in the format of its data set.

One config of each task is tested with test-time augmentation.
"""

import ast
import math
import re
from functools import cache
from pathlib import Path

import pytest
import torch
from mmengine.hooks import Hook
from mmengine.model import revert_sync_batchnorm
from mmengine.registry import MODELS

from mmflatten.engine.setup import build_runner
from mmflatten.engine.test import add_tta
from mmflatten.engine.test import test as run_test

ROOT = Path(__file__).parents[2] / 'configs'
# Stereo configs, which take pairs of images, have a separate test.
CONFIGS = sorted(
    path
    for path in ROOT.glob('*/*.py')
    if path.parent.name not in ('_base_', 'psmnet') and 'stereo' not in path.stem
)
SMALL = re.compile(r'-t_|-t-|-b0|nano|r50')
METRICS = dict(mmpretrain={'accuracy/top1', 'accuracy/top5'}, mmseg={'mIoU', 'mAcc', 'aAcc'})
AVERAGE_PRECISIONS = ('mAP', 'mAP_50', 'mAP_75', 'mAP_s', 'mAP_m', 'mAP_l')


@cache
def bases_of(path: Path) -> frozenset[Path]:
    """Return all files that a config inherits from, directly or indirectly."""
    names = []
    for node in ast.parse(path.read_text(encoding='utf-8')).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], 'id', '') == '_base_':
            names += ast.literal_eval(node.value)
    found = frozenset((path.parent / name).resolve() for name in names)
    return found.union(*map(bases_of, found))


def kinds_of(path: Path) -> set:
    """Return the kinds of a config: its model and data parts, and mixed letters.

    Not its family: `test_cpu_amp.py` trains each backbone, `test_attention_matrix.py` each
    attention.
    """
    parts = {base for base in bases_of(path) if base.parent.name in ('models', 'datasets')}
    parts -= set().union(*map(bases_of, parts))  # parts that another part inherits from
    # the same pipeline
    larger = {part for part in parts if re.search('384|640|_56|_112', part.stem)}
    return parts - larger | ({path} if 'mixed' in path.stem else set())


def sample() -> set[Path]:
    """Choose a few small configs that cover all kinds."""
    kinds = {path: kinds_of(path) for path in CONFIGS}
    chosen, left = set(), set().union(*kinds.values())
    while left:
        best = max(
            CONFIGS,
            key=lambda path: (len(kinds[path] & left), bool(SMALL.search(path.stem)), path.stem),
        )
        chosen.add(best)
        left -= kinds[best]
    return chosen


SAMPLE = sample()
LARGE = {path for path in SAMPLE if '-l_' in path.stem}  # the only configs of their kind


class Record(Hook):
    """Losses of the training step, and metrics of the validation."""

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        self.losses = outputs

    def after_val_epoch(self, runner, metrics=None):
        self.metrics = metrics


def expected_metrics(config) -> set[str]:
    if config.default_scope != 'mmdet':
        return METRICS[config.default_scope]
    if config.val_evaluator.type == 'mmflatten.PanopticMetric':
        return {'coco_panoptic/PQ', 'coco_panoptic/SQ', 'coco_panoptic/RQ'}
    kinds = config.val_evaluator.metric
    found = set()
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        found |= {f'coco/{kind}_{name}' for name in AVERAGE_PRECISIONS}
    return found


@pytest.mark.parametrize(
    'path',
    [
        pytest.param(
            path,
            id=path.relative_to(ROOT).as_posix(),
            marks=[] if path in SAMPLE - LARGE else [pytest.mark.full],
        )
        for path in CONFIGS
    ],
)
def test_config_trains_a_step_and_validates(path, short_run):
    config = short_run(path)
    # A rehearsal takes a third of the time. tests/test_engine rehearses each kind of model.
    config.default_hooks.data_checks.rehearse = path not in SAMPLE
    runner, record = build_runner(config), Record()
    runner.register_hook(record)
    runner.train()

    assert record.losses and all(torch.isfinite(loss).all() for loss in record.losses.values())
    assert all(torch.isfinite(parameter).all() for parameter in runner.model.parameters())
    # The first step of the warm-up may be too small for float32, but it changes the optimizer's
    # averages.
    first = next(parameter for parameter in runner.model.parameters() if parameter.requires_grad)
    averages = [
        value
        for value in runner.optim_wrapper.optimizer.state[first].values()
        if torch.is_tensor(value)
    ]
    assert any(value.count_nonzero() for value in averages)
    missing = {
        name for name in expected_metrics(config) if math.isnan(record.metrics.get(name, math.nan))
    }
    assert not missing


@pytest.mark.parametrize(
    'name', ['flatten-swin-t_8xb128_in1k', 'upernet_flatten-swin-t_8xb2-160k_ade20k-512x512']
)
def test_task_runs_with_test_time_augmentation(name, short_run, tmp_path):
    config = short_run(ROOT / 'flatten_swin' / f'{name}.py')
    model = dict(
        config.model,
        data_preprocessor=config.model.get('data_preprocessor') or config.data_preprocessor,
    )
    torch.save(
        dict(state_dict=revert_sync_batchnorm(MODELS.build(model)).state_dict()),
        tmp_path / 'model.pth',
    )
    add_tta(config)
    expected = expected_metrics(config)
    metrics = run_test(config, str(tmp_path / 'model.pth'))
    assert all(-1 <= metrics[metric] <= 100 for metric in expected)
