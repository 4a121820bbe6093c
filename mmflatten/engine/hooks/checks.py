"""Checks before the first batch: channels of the parts of a model, and classes of data, heads and metric."""
import os
from collections.abc import Iterator, Sequence
from typing import Any

from mmengine.dataset import Compose
from mmengine.hooks import Hook
from mmengine.model import BaseTTAModel, is_model_wrapper
from mmengine.runner import BaseLoop, Runner
from torch import nn

from mmflatten.classes import ClassesError, require_same, wrong_heads
from mmflatten.engine.datasets import NamingPipeline
from mmflatten.registry import HOOKS


def bare_model(model: nn.Module) -> nn.Module:
    """Return the model inside wrappers of distributed training and test-time augmentation."""
    while is_model_wrapper(model) or isinstance(model, BaseTTAModel):
        model = model.module
    return model


def require_matching_channels(model: nn.Module) -> None:
    """Compare `out_channels` of the backbone with `in_channels` of the neck, or of the heads.

    Otherwise PyTorch would name a convolution and its weights in the middle of the first step. Backbones of other
    libraries do not state their channels and are not checked.

    Raises:
        ValueError: the channels differ.
    """
    model = bare_model(model)
    backbone, neck = getattr(model, 'backbone', None), getattr(model, 'neck', None)
    channels = getattr(backbone, 'out_channels', None)
    if not isinstance(channels, Sequence):
        return
    # A neck without parameters pools and keeps the channels; other necks change them.
    changes_channels = neck is not None and any(True for _ in neck.parameters())
    for name in ('neck', ) if changes_channels else ('decode_head', 'bbox_head', 'head'):
        part = getattr(model, name, None)
        expected = getattr(part, 'in_channels', None)
        if not isinstance(expected, (int, Sequence)):
            continue
        index = getattr(part, 'in_index', None)
        if index is None:
            index = -1 if isinstance(expected, int) else range(len(channels))
        try:
            actual = channels[index] if isinstance(index, int) else [channels[i] for i in index]
        except IndexError:  # the head reports an invalid in_index
            continue
        if (expected if isinstance(expected, int) else list(expected)) != actual:
            raise ValueError(f'model.{name}.in_channels ({expected}) must equal the output channels of the backbone, '
                             f'{actual} ({type(backbone).__name__} with out_indices {tuple(backbone.out_indices)}).')


@HOOKS.register_module()
class CheckDataHook(Hook):
    """Reject a data set whose classes the heads do not have, and replace its pipeline by a `NamingPipeline`.

    Otherwise a label above the last class ends in an index error, which a GPU reports at an unrelated place.
    """

    priority = 'VERY_HIGH'

    def before_train(self, runner: Runner) -> None:
        _check(runner.train_loop, 'train', runner.model)
        if runner.val_loop is not None:  # now, not after the first epoch
            require_same(_classes(runner.val_loop), _classes(runner.train_loop), 'val_dataloader.dataset',
                         'train_dataloader.dataset', 'Set the same metainfo=dict(classes=...) in both.')
            _check(runner.val_loop, 'val', runner.model)
            _check_evaluator(runner.val_loop, 'val')

    def before_val(self, runner: Runner) -> None:
        _check(runner.val_loop, 'val', runner.model)

    def before_test(self, runner: Runner) -> None:
        _check(runner.test_loop, 'test', runner.model)
        _check_evaluator(runner.test_loop, 'test')


def _classes(loop: BaseLoop) -> Sequence[str]:
    return getattr(loop.dataloader.dataset, 'metainfo', {}).get('classes') or ()


def _check(loop: BaseLoop, split: str, model: nn.Module) -> None:
    model, where, classes = bare_model(model), f'{split}_dataloader.dataset', len(_classes(loop))
    # A detector's labels are looked up in the classes. Other models may have unused classes.
    is_detector = any(kind.__module__.startswith('mmdet.') for kind in type(model).__mro__)
    for problem in wrong_heads(model, classes, where, exact=is_detector):
        raise ClassesError(problem)
    # Labels of a classifier or segmentor: number of classes, and the label that the loss ignores.
    head = getattr(model, 'decode_head', None) or getattr(model, 'head', None)
    number = getattr(head, 'num_classes', None)
    labels = (number, getattr(head, 'ignore_index', -100)) if isinstance(number, int) else None
    for part in _with_inner(loop.dataloader.dataset):
        # mmdet's CocoDataset skips names that its annotation file does not have.
        categories = getattr(part, 'cat_ids', None)
        if classes and categories is not None and len(categories) != classes:
            raise ClassesError(f'{where}: {part.ann_file} has {len(categories)} of the {classes} classes. Correct '
                               'metainfo=dict(classes=...).')
        if type(getattr(part, 'pipeline', None)) is Compose:
            part.pipeline = NamingPipeline(part.pipeline.transforms, labels)


def _check_evaluator(loop: BaseLoop, split: str) -> None:
    """Reject a COCO metric whose annotations differ from those of its data set."""
    dataset = loop.dataloader.dataset
    for metric in loop.evaluator.metrics:
        coco, categories = getattr(metric, '_coco_api', None), getattr(dataset, 'cat_ids', None)
        if coco is None or categories is None:
            continue
        fix = f'{split}_evaluator.ann_file must be the file of {split}_dataloader.dataset ({dataset.ann_file})'
        ids = coco.get_cat_ids(cat_names=dataset.metainfo['classes'])
        if ids != categories:
            raise ClassesError(f'{fix}: its category ids of the classes are {ids}, not {categories}.')
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
