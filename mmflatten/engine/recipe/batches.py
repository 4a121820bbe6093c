"""One batch of each loader of a config, tried as in a training before it starts."""

from __future__ import annotations

import contextlib
import copy
import io
from typing import Any

from mmengine.config import Config
from mmengine.evaluator import Evaluator
from mmengine.model import revert_sync_batchnorm
from mmengine.registry import DefaultScope
from mmengine.runner import set_random_seed
from torch import nn
from torch.utils.data import DataLoader

from mmflatten.config import build_model
from mmflatten.console import explain
from mmflatten.engine.datasets import DatasetError
from mmflatten.engine.hooks.data_checks import check_data
from mmflatten.engine.rehearsal import try_evaluation, try_training
from mmflatten.engine.runner import Runner

LOADERS = ('train', 'val', 'test')


def try_batches(cfg: Config) -> tuple[list[str], list[str]]:
    """Run a training step and a batch of the validation and of the test, on the CPU with random
    weights.

    Returns:
        Problems, and notes about what was tried. A data set that is not on this machine is a note.
    """
    scope = cfg.get('default_scope', 'mmengine')
    problems: list[str] = []
    tried = []
    notes = []
    prints = contextlib.redirect_stdout(io.StringIO())  # of pycocotools
    with prints, DefaultScope.overwrite_default_scope(scope):
        set_random_seed(0)
        model = None
        for split in LOADERS:
            if cfg.get(f'{split}_dataloader') is None or _repeats_validation(cfg, split):
                continue
            try:
                loader = _loader(cfg, split)
            except DatasetError as error:
                notes.append(f'{split}_dataloader not tried: {error}')
                if split == 'train':
                    break
                continue
            try:
                model = model or _model(cfg)
                problems += _try_split(cfg, split, model, loader)
                tried.append(split)
            except Exception as error:  # of any library, with the field in ours
                problems.append(explain(error))
    if tried:
        notes.insert(0, f'tried one batch of {", ".join(tried)} in the model')
    return problems, notes


def _repeats_validation(cfg: Config, split: str) -> bool:
    """Return True for a test with the loader and the metric of the validation."""
    if split != 'test':
        return False
    parts = ('dataloader', 'evaluator')
    return all(cfg.get(f'val_{part}') == cfg.get(f'test_{part}') for part in parts)


def _loader(cfg: Config, split: str) -> DataLoader:
    loader = copy.deepcopy(cfg[f'{split}_dataloader'])
    loader.num_workers = 0
    return Runner.build_dataloader(loader, seed=0)


def _model(cfg: Config) -> nn.Module:
    """Build the model with random weights, without files of pre-trained ones."""
    without = copy.deepcopy(cfg)
    without.model = without_checkpoints(without.model)
    model = revert_sync_batchnorm(build_model(without))
    model.init_weights()
    return model


def without_checkpoints(value: Any) -> Any:
    """Return a model's config, changed in place, without files of weights."""
    if isinstance(value, dict):
        for key in list(value):
            if key == 'pretrained' and isinstance(value[key], bool):
                value[key] = False  # of a model of timm or Hugging Face
            elif key == 'pretrained' or _names_checkpoint(value[key]):
                value[key] = None
            else:
                value[key] = without_checkpoints(value[key])
    elif isinstance(value, (list, tuple)):
        kept = [item for item in value if not _names_checkpoint(item)]
        return type(value)(map(without_checkpoints, kept))
    return value


def _names_checkpoint(value: Any) -> bool:
    return isinstance(value, dict) and value.get('type') == 'Pretrained'


def _try_split(cfg: Config, split: str, model: Any, loader: DataLoader) -> list[str]:
    check_data(loader.dataset, split, model)
    if split == 'train':
        return try_training(model, loader)
    evaluator = None
    if cfg.get(f'{split}_evaluator'):
        evaluator = Evaluator(copy.deepcopy(cfg[f'{split}_evaluator']))
        evaluator.dataset_meta = getattr(loader.dataset, 'metainfo', None)
    try_evaluation(model, loader, evaluator, split)
    return []
