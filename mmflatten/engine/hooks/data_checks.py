"""Check a data set before its first batch: its classes match the model, and errors name the files of a sample."""
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
    """Reject a data set whose classes the heads do not have, and replace its pipeline by a `NamingPipeline`.

    Otherwise a label above the last class ends in an index error, which a GPU reports at an unrelated place.
    """

    priority = 'VERY_HIGH'

    def before_train(self, runner: Runner) -> None:
        dataset = runner.train_loop.dataloader.dataset
        _check(dataset, 'train', runner.model)
        if runner.val_loop is not None:  # now, not after the first epoch
            validation = runner.val_loop.dataloader.dataset
            classes, others = _classes(dataset), _classes(validation)
            if classes and others and classes != others:
                raise ValueError(f'train_dataloader.dataset has the classes {shorten(classes, 5)} and '
                                 f'val_dataloader.dataset has {shorten(others, 5)}. Set the same '
                                 'metainfo=dict(classes=...) in both.')
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
    # Labels of a classifier or segmentor: number of classes, and the label that the loss ignores.
    head = getattr(model, 'decode_head', None) or getattr(model, 'head', None)
    number = getattr(head, 'num_classes', None)
    labels = (number, getattr(head, 'ignore_index', -100)) if isinstance(number, int) else None
    for part in _with_inner(dataset):
        if type(getattr(part, 'pipeline', None)) is Compose:
            part.pipeline = NamingPipeline(part.pipeline.transforms, labels)


def _check_classes(dataset: Any, split: str, model: nn.Module) -> None:
    classes = len(_classes(dataset))
    if not classes:
        return
    for part in _with_inner(dataset):
        # mmdet's CocoDataset skips names that its annotation file does not have.
        categories = getattr(part, 'cat_ids', None)
        if categories is not None and len(categories) != classes:
            raise ValueError(f'{split}_dataloader.dataset ({type(part).__name__}) has {classes} classes and '
                             f'{part.ann_file} has {len(categories)} of them. Correct metainfo=dict(classes=...).')
    # A detector's labels are looked up in the classes. Other models may have unused classes.
    is_detector = any(kind.__module__.startswith('mmdet.') for kind in type(model).__mro__)
    for name, head in model.named_modules():
        number = getattr(head, 'num_classes', None)
        if not isinstance(number, int) or not HEADS.fullmatch(name):
            continue
        if number < classes or (is_detector and number != classes):
            raise ValueError(f'{split}_dataloader.dataset ({type(dataset).__name__}) has {classes} classes and '
                             f"model.{name}.num_classes is {number}. Set it to {classes}, or the data set's "
                             "metainfo=dict(classes=...) to the model's classes.")


def _classes(dataset: Any) -> tuple[str, ...]:
    return tuple(getattr(dataset, 'metainfo', {}).get('classes') or ())


def _check_evaluator(dataset: Any, split: str, evaluator: Any) -> None:
    """Reject a COCO metric whose annotations differ from those of its data set."""
    for metric in evaluator.metrics:
        coco, categories = getattr(metric, '_coco_api', None), getattr(dataset, 'cat_ids', None)
        if coco is None or categories is None:
            continue
        fix = f'{split}_evaluator.ann_file must be the file of {split}_dataloader.dataset ({dataset.ann_file})'
        ids = coco.get_cat_ids(cat_names=dataset.metainfo['classes'])
        if ids != categories:
            raise ValueError(f'{fix}: its category ids of the classes are {ids}, not {categories}.')
        for index in range(len(dataset)):
            info = dataset.get_data_info(index)
            image = coco.imgs.get(info['img_id'], {}).get('file_name')
            if image is None or os.path.basename(image) != os.path.basename(info['img_path']):
                raise ValueError(f'{fix}: its image of id {info["img_id"]} is {image}, not {info["img_path"]}.')


def _with_inner(dataset: Any) -> Iterator[Any]:
    """Yield a data set and those that it wraps (repeated, concatenated, class-balanced, mixed)."""
    yield dataset
    for part in (getattr(dataset, 'dataset', None), *(getattr(dataset, 'datasets', None) or [])):
        if part is not None:
            yield from _with_inner(part)
