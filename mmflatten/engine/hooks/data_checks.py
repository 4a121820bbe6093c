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
    check_classes(dataset, split, model)
    for part in _with_inner(dataset):
        if type(getattr(part, 'pipeline', None)) is Compose:
            part.pipeline = NamingPipeline(part.pipeline.transforms, label_limits(model))


def check_classes(dataset: Any, split: str, model: nn.Module) -> None:
    """Raise ValueError where the number of classes of a data set is not that of the model's heads."""
    classes = getattr(dataset, 'metainfo', {}).get('classes') or ()
    for head, number in heads_with_classes(model) if classes else ():
        # A detector's predictions are looked up in the classes; elsewhere classes may be left unused.
        if number < len(classes) or (type(model).__module__.startswith('mmdet.') and number != len(classes)):
            raise ValueError(f'{split}_dataloader.dataset ({type(dataset).__name__}) has {len(classes)} classes and '
                             f"model.{head}.num_classes is {number}; set it to {len(classes)}, or the data set's "
                             "metainfo=dict(classes=...) to the model's classes")


def heads_with_classes(model: nn.Module) -> Iterator[tuple[str, int]]:
    """Name and `num_classes` of the heads that tell the classes of the data set apart."""
    for name, module in model.named_modules():
        number = getattr(module, 'num_classes', None)
        if isinstance(number, int) and _HEADS.fullmatch(name):
            yield name, number


def label_limits(model: nn.Module) -> tuple[int, int] | None:
    """The number of labels a classifier or segmentor has, and the one it ignores; None for other models."""
    head = getattr(model, 'decode_head', None) or getattr(model, 'head', None)
    number = getattr(head, 'num_classes', None)
    return (number, getattr(head, 'ignore_index', -100)) if isinstance(number, int) else None


def _with_inner(dataset: Any) -> Iterator[Any]:
    """A data set and those it wraps (repeated, concatenated, class-balanced, mixed)."""
    yield dataset
    for part in (getattr(dataset, 'dataset', None), *(getattr(dataset, 'datasets', None) or [])):
        if part is not None:
            yield from _with_inner(part)
