"""A check of a data set before its first batch: model and data mean the same classes, and broken files get named."""
import os
import re
from collections.abc import Iterator
from typing import Any

from mmengine.dataset import Compose
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import nn

from mmflatten.checkpoints.rules import shorten
from mmflatten.engine.datasets import NamingPipeline
from mmflatten.engine.hooks.channels import bare_model
from mmflatten.registry import HOOKS

HEADS = re.compile(r'(?:^|.*\.)(?:head|decode_head|auxiliary_head|bbox_head|mask_head)(?:\.\d+)?')


@HOOKS.register_module()
class CheckDataHook(Hook):
    """Refuse a data set whose classes the model's heads do not have, and give its pipeline a `NamingPipeline`.

    A label beyond the last class ends in an index error, which a GPU reports somewhere else.
    """

    priority = 'VERY_HIGH'

    def before_train(self, runner: Runner) -> None:
        dataset = runner.train_loop.dataloader.dataset
        _check(dataset, 'train', runner.model)
        if runner.val_loop is not None:  # now, not after the first epoch
            validation = runner.val_loop.dataloader.dataset
            _require_same_classes(dataset, validation)
            _check(validation, 'val', runner.model)
            _check_evaluator(validation, 'val', runner.val_loop.evaluator)

    def before_val(self, runner: Runner) -> None:
        _check(runner.val_loop.dataloader.dataset, 'val', runner.model)

    def before_test(self, runner: Runner) -> None:
        dataset = runner.test_loop.dataloader.dataset
        _check(dataset, 'test', runner.model)
        _check_evaluator(dataset, 'test', runner.test_loop.evaluator)


def _check(dataset: Any, split: str, model: nn.Module) -> None:
    model = bare_model(model)
    _check_classes(dataset, split, model)
    # A classifier or segmentor: the labels that its head knows, and the one that it ignores.
    head = getattr(model, 'decode_head', None) or getattr(model, 'head', None)
    number = getattr(head, 'num_classes', None)
    labels = (number, getattr(head, 'ignore_index', -100)) if isinstance(number, int) else None
    for part in _with_inner(dataset):
        if type(getattr(part, 'pipeline', None)) is Compose:
            part.pipeline = NamingPipeline(part.pipeline.transforms, labels)


def _check_classes(dataset: Any, split: str, model: nn.Module) -> None:
    classes = len(getattr(dataset, 'metainfo', {}).get('classes') or ())
    for part in _with_inner(dataset):
        found = getattr(part, 'cat_ids', None)  # mmdet's own CocoDataset passes over names that its file does not have
        if classes and found is not None and len(found) != classes:
            raise ValueError(f'{split}_dataloader.dataset ({type(part).__name__}) has {classes} classes and '
                             f'{part.ann_file} has {len(found)} of them; correct metainfo=dict(classes=...)')
    for name, head in model.named_modules():
        number = getattr(head, 'num_classes', None)
        if not (classes and isinstance(number, int) and HEADS.fullmatch(name)):
            continue
        # A detector's predictions are looked up in the classes; elsewhere classes may be left unused.
        if number < classes or (_is_detector(model) and number != classes):
            raise ValueError(f'{split}_dataloader.dataset ({type(dataset).__name__}) has {classes} classes and '
                             f"model.{name}.num_classes is {number}; set it to {classes}, or the data set's "
                             "metainfo=dict(classes=...) to the model's classes")


def _is_detector(model: nn.Module) -> bool:
    return any(kind.__module__.startswith('mmdet.') for kind in type(model).__mro__)


def _require_same_classes(training: Any, validation: Any) -> None:
    names, others = (tuple(getattr(data, 'metainfo', {}).get('classes') or ()) for data in (training, validation))
    if names and others and names != others:
        raise ValueError(f'train_dataloader.dataset has the classes {shorten(names, 5)} and val_dataloader.dataset has '
                         f'{shorten(others, 5)}; give both the same metainfo=dict(classes=...)')


def _check_evaluator(dataset: Any, split: str, evaluator: Any) -> None:
    """Refuse COCO annotations of a metric that are not those of its data set."""
    for metric in evaluator.metrics:
        coco, categories = getattr(metric, '_coco_api', None), getattr(dataset, 'cat_ids', None)
        if coco is None or categories is None:
            continue
        fix = f'{split}_evaluator.ann_file must be the file of {split}_dataloader.dataset ({dataset.ann_file})'
        found = coco.get_cat_ids(cat_names=dataset.metainfo['classes'])
        if found != categories:
            raise ValueError(f'{fix}: its category ids of the classes are {found}, not {categories}')
        for index in range(len(dataset)):
            info = dataset.get_data_info(index)
            image = coco.imgs.get(info['img_id'], {}).get('file_name')
            if image is None or os.path.basename(image) != os.path.basename(info['img_path']):
                raise ValueError(f'{fix}: its image of id {info["img_id"]} is {image}, not {info["img_path"]}')


def _with_inner(dataset: Any) -> Iterator[Any]:
    """A data set and those it wraps (repeated, concatenated, class-balanced, mixed)."""
    yield dataset
    for part in (getattr(dataset, 'dataset', None), *(getattr(dataset, 'datasets', None) or [])):
        if part is not None:
            yield from _with_inner(part)
