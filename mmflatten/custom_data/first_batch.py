"""First batch of the data sets of a written config, before the config appears."""

import contextlib
import copy
import io
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.evaluator import Evaluator
from mmengine.logging import MessageHub
from mmengine.registry import MODELS, init_default_scope
from mmengine.runner import set_random_seed

from mmflatten.config import model_config
from mmflatten.console import explain
from mmflatten.engine.datasets import DatasetError
from mmflatten.engine.runner import Runner
from mmflatten.tasks import task_of

SPLITS = ('train', 'val', 'test')


class BatchError(ValueError):
    """The data sets of a config give no batch. The message begins with the field."""


def require_batches(cfg: Config) -> None:
    """Build the data sets and metrics, and let the data preprocessor take one batch of each loader.

    Raises:
        BatchError: names the loader or metric, and the transform if it is one.
    """
    init_default_scope(cfg.get('default_scope') or 'mmengine')
    set_random_seed(0)  # augmentations are random
    # Some depend on the progress of a training.
    progress = dict(epoch=0, iter=0, max_epochs=1, max_iters=1)
    MessageHub.get_instance('first_batch').update_info_dict(progress)
    built: list[Mapping[str, Any]] = []
    for split in SPLITS:
        loader = cfg.get(f'{split}_dataloader')
        if loader is None or loader in built:
            continue
        built.append(loader)
        with contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints
            _require_batch(cfg, split, loader)


def _require_batch(cfg: Config, split: str, loader: Mapping[str, Any]) -> None:
    """Take one batch of a loader, and build its metric."""
    with _named(f'{split}_dataloader'):
        built = Runner.build_dataloader({**copy.deepcopy(loader), 'num_workers': 0}, seed=0)
        batch = next(iter(built))
    preprocessor = _preprocessor(cfg)
    if preprocessor is not None:
        at_top = cfg.get('data_preprocessor') is not None
        with _named('data_preprocessor' if at_top else 'model.data_preprocessor'):
            MODELS.build(preprocessor)(batch, split == 'train')
    evaluator = cfg.get(f'{split}_evaluator')
    if evaluator is not None:
        with _named(f'{split}_evaluator'):
            metainfo = getattr(built.dataset, 'metainfo', {})
            Evaluator(copy.deepcopy(evaluator)).dataset_meta = metainfo


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Turn any error into a BatchError with the name of the field."""
    try:
        yield
    except Exception as error:
        # The data were read already, so that a data set fails for its pipeline.
        is_dataset = isinstance(error, DatasetError) and error.__cause__ is not None
        reason = explain(error.__cause__ if is_dataset else error).rstrip('.')
        raise BatchError(
            f'{name}: the base gives no batch of your data: {reason}. Choose another base, or'
            ' change this field in a config that inherits from it.'
        ) from error


def _preprocessor(cfg: Config) -> dict[str, Any] | None:
    """Return the config of the data preprocessor, completed as the model would."""
    model = model_config(cfg)
    preprocessor = model.get('data_preprocessor')
    if preprocessor is None:
        return None
    default = task_of(cfg).data_preprocessor
    if default:
        preprocessor.setdefault('type', default)
    train_cfg = model.get('train_cfg') or {}
    if 'augments' in train_cfg:  # Mixup and CutMix of mmpretrain
        preprocessor['batch_augments'] = train_cfg
    return preprocessor


def with_files(cfg: Config, partial: Mapping[Path, Path]) -> Config:
    """Return a config that reads files from the paths where they are written at first.

    Args:
        partial: path of each file -> path where it is now.
    """
    root = cfg.get('data_root') or ''
    paths = {os.path.abspath(path): os.path.abspath(now) for path, now in partial.items()}
    copied = copy.deepcopy(cfg)
    for split in SPLITS:
        for part in ('dataloader', 'evaluator'):
            _replace_files(copied.get(f'{split}_{part}'), root, paths)
    return copied


def _replace_files(node: Any, root: str, paths: Mapping[str, str]) -> None:
    """Replace the value of each `ann_file` that is one of the paths."""
    if isinstance(node, (list, tuple)):
        for item in node:
            _replace_files(item, root, paths)
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if key == 'ann_file' and isinstance(value, str):
            node[key] = paths.get(os.path.abspath(os.path.join(root, value)), value)
        else:
            _replace_files(value, root, paths)
