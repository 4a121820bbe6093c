"""Config of a run, made from base, options, budget and seed, and checks that every option
exists.
"""

import contextlib
import copy
import functools
import inspect
import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import torch
from mmengine.config import Config, ConfigDict
from mmengine.evaluator import Evaluator
from mmengine.registry import DefaultScope
from mmengine.runner import Runner

from mmflatten.config import build_model, require_parts
from mmflatten.engine.datasets import DatasetError, build_dataset
from mmflatten.engine.recipe.settings import schedulers, training_length, training_set
from mmflatten.engine.setup import load_config

# These register the classes that configs and controls name.
from mmflatten_lab import datasets, models  # noqa: F401
from mmflatten_lab.studies.options import check_types, find_class
from mmflatten_lab.studies.runs import StudyRun
from mmflatten_lab.studies.study import Budget
from mmflatten_lab.studies.study_fields import StudyError

SCHEDULED = ('begin', 'end', 'T_max', 'milestones')  # fields of a scheduler in epochs or iterations


def config_of(run: StudyRun, budget: Budget) -> Config:
    """Make the config of a run.

    Raises:
        StudyError: an option does not exist in the config, or the budget does not fit its training
            loop.
        FileNotFoundError: the base does not exist.
    """
    cfg = copy.deepcopy(_base(run.base))
    for path, value in run.options.items():
        try:
            check_types(path, value, cfg.get('default_scope') or 'mmengine')
        except ValueError as error:
            raise StudyError(str(error)) from error
        cfg.merge_from_dict({path: copy.deepcopy(value)})
    _drop_delete_markers(cfg._cfg_dict)
    _set_length(cfg, budget, _base(run.base))
    randomness = dict(cfg.get('randomness') or {})
    randomness['seed'] = run.seed
    cfg.randomness = randomness
    if 'checkpoint' in (cfg.get('default_hooks') or {}):
        cfg.default_hooks.checkpoint.max_keep_ckpts = 1
    cfg.pop('work_dir', None)
    return cfg


@functools.cache
def _base(name: str) -> Config:
    cfg = load_config(name)
    require_parts(
        cfg,
        'model',
        'train_dataloader',
        'train_cfg',
        'optim_wrapper',
        'test_dataloader',
        'test_evaluator',
    )
    return cfg


def _drop_delete_markers(node: Any) -> None:
    """Remove `_delete_`, which MMEngine leaves in new fields."""
    if isinstance(node, dict):
        node.pop('_delete_', None)
        node = list(node.values())
    for item in node if isinstance(node, list) else ():
        _drop_delete_markers(item)


def _set_length(cfg: Config, budget: Budget, base: Config) -> None:
    """Set the length of the training to the budget, and scale schedules and warm-up with it."""
    before, unit = training_length(cfg)
    length = getattr(budget, unit)
    if length is None:
        raise StudyError(
            f'budget.{unit}: expected the length of the training of {cfg.filename}, got none.'
            ' Set it.'
        )
    loop = cfg.train_cfg
    steps = 1.0
    if unit == 'epochs':
        loop['max_epochs'] = length
        loop.val_interval = min(loop.get('val_interval', 1), length)
        steps = _steps_per_epoch(cfg, base)
    else:
        loop['max_iters'] = length
        loop.val_interval = min(loop.get('val_interval', 1000), length)
    for scheduler in schedulers(cfg):
        factor = length / before
        if not scheduler.get('by_epoch', True):
            factor *= steps
        for key in set(SCHEDULED) & set(scheduler):
            scheduler[key] = _scaled(scheduler[key], factor)


def _steps_per_epoch(cfg: Config, base: Config) -> float:
    """Ratio of the iterations per epoch to those of the base; 1 if the number of images is
    unknown.
    """
    try:
        return _num_batches(cfg.train_dataloader) / _num_batches(base.train_dataloader)
    except DatasetError:
        return 1.0


def _num_batches(loader: ConfigDict) -> float:
    """Batches of an epoch, the last one as a fraction."""
    indices = loader.dataset.get('indices')
    if isinstance(indices, int):
        images = abs(indices)
    else:
        images = _count_images(json.dumps(loader.dataset, sort_keys=True))
    return images / loader.batch_size


@functools.cache
def _count_images(dataset: str) -> int:
    cfg = ConfigDict(json.loads(dataset))
    return training_set(cfg).images or len(build_dataset(cfg))


def metric_names(cfg: Config) -> list[str] | None:
    """Names of the test metrics of a config, found by testing an untrained model on two images;
    None if that fails.
    """
    with (
        contextlib.suppress(Exception),
        DefaultScope.overwrite_default_scope(cfg.get('default_scope') or 'mmengine'),
    ):
        cfg = copy.deepcopy(cfg)  # evaluators and models take their settings out of it
        cfg.test_dataloader.update(num_workers=0, persistent_workers=False, batch_size=2)
        cfg.test_dataloader.dataset.indices = 2
        model = build_model(cfg).eval()
        loader = Runner.build_dataloader(cfg.test_dataloader)
        evaluator = Evaluator(cfg.test_evaluator)
        evaluator.dataset_meta = getattr(loader.dataset, 'metainfo', None)
        with torch.no_grad():
            for batch in loader:
                evaluator.process(data_samples=model.test_step(batch), data_batch=batch)
        return list(evaluator.evaluate(len(loader.dataset)))
    return None


def _scaled(value: Any, factor: float) -> Any:
    if isinstance(value, (list, tuple)):
        return [_scaled(item, factor) for item in value]
    return value and max(1, round(value * factor))


def check_parts(cfg: Config) -> None:
    """Raise StudyError for an unregistered data set or metric, or an unknown argument of one. Reads
    no data.
    """
    for name, kind in product(('train', 'val', 'test'), ('dataloader', 'evaluator')):
        place = f'{name}_{kind}'
        for part in _parts(cfg.get(place)):
            _check_part(place, part, cfg.get('default_scope') or 'mmengine')


def _check_part(place: str, part: dict, scope: str) -> None:
    kind = part['type']
    cls = find_class(kind, part.get('_scope_') or scope)
    if cls is None and '.' in kind:
        return  # a class of the base config, which MMEngine imports
    if cls is None:
        raise StudyError(f'{place}: expected a registered type, got {kind}. Correct it.')
    arguments = {name: value for name, value in part.items() if name not in ('type', '_scope_')}
    try:
        inspect.signature(cls).bind_partial(**arguments)
    except TypeError as error:
        raise StudyError(f'{place}: {kind} {error}. Correct it.') from error


def _parts(node: Any) -> Iterator[dict]:
    """Data sets and metrics in a part of a config, including wrapped ones."""
    if isinstance(node, dict):
        if 'type' in node:
            yield node
        node = [node.get(key) for key in ('dataset', 'datasets', 'metrics')]
    for item in node if isinstance(node, (list, tuple)) else ():
        yield from _parts(item)
