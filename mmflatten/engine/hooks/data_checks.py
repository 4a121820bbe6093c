"""A check of a data set before its first batch: model and data mean the same classes, and broken files get named."""
import re
from collections.abc import Iterator
from typing import Any

from mmengine.dataset import Compose
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import nn

from mmflatten.engine.datasets import NamingPipeline
from mmflatten.engine.hooks.channels import bare_model
from mmflatten.registry import HOOKS

_HEADS = re.compile(r'(?:^|.*\.)(?:head|decode_head|auxiliary_head|bbox_head|mask_head)(?:\.\d+)?')


@HOOKS.register_module()
class CheckDataHook(Hook):
    """Refuse a data set whose classes the model's heads do not have, and give its pipeline a `NamingPipeline`.

    A label beyond the last class ends in an index error, which a GPU reports somewhere else.
    """

    priority = 'VERY_HIGH'

    def before_train(self, runner: Runner) -> None:
        _check(runner.train_loop.dataloader.dataset, 'train', runner.model)

    def before_val(self, runner: Runner) -> None:
        _check(runner.val_loop.dataloader.dataset, 'val', runner.model)

    def before_test(self, runner: Runner) -> None:
        _check(runner.test_loop.dataloader.dataset, 'test', runner.model)


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
    for name, head in model.named_modules():
        number = getattr(head, 'num_classes', None)
        if not (classes and isinstance(number, int) and _HEADS.fullmatch(name)):
            continue
        # A detector's predictions are looked up in the classes; elsewhere classes may be left unused.
        if number < classes or (type(model).__module__.startswith('mmdet.') and number != classes):
            raise ValueError(f'{split}_dataloader.dataset ({type(dataset).__name__}) has {classes} classes and '
                             f"model.{name}.num_classes is {number}; set it to {classes}, or the data set's "
                             "metainfo=dict(classes=...) to the model's classes")


def _with_inner(dataset: Any) -> Iterator[Any]:
    """A data set and those it wraps (repeated, concatenated, class-balanced, mixed)."""
    yield dataset
    for part in (getattr(dataset, 'dataset', None), *(getattr(dataset, 'datasets', None) or [])):
        if part is not None:
            yield from _with_inner(part)
