"""A check of a data set before its first batch: model and data mean the same classes."""
import re
from collections.abc import Iterator
from typing import Any

from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import nn

from mmflatten.engine.hooks.channels import bare_model
from mmflatten.registry import HOOKS

_HEADS = re.compile(r'(?:^|.*\.)(?:head|decode_head|auxiliary_head|bbox_head|mask_head)(?:\.\d+)?')


@HOOKS.register_module()
class CheckDataHook(Hook):
    """Refuse a data set whose classes the model's heads do not have.

    Without it a label beyond the last class ends in an index error, which a GPU reports somewhere else.
    """

    priority = 'VERY_HIGH'

    def before_train(self, runner: Runner) -> None:
        check_classes(runner.train_loop.dataloader.dataset, 'train', runner.model)

    def before_val(self, runner: Runner) -> None:
        check_classes(runner.val_loop.dataloader.dataset, 'val', runner.model)

    def before_test(self, runner: Runner) -> None:
        check_classes(runner.test_loop.dataloader.dataset, 'test', runner.model)


def check_classes(dataset: Any, split: str, model: nn.Module) -> None:
    """See `CheckDataHook`.

    Raises:
        ValueError: they do not fit.
    """
    name = f'{split}_dataloader.dataset ({type(dataset).__name__})'
    classes = getattr(dataset, 'metainfo', {}).get('classes')
    if not classes:
        return
    library = type(bare_model(model)).__module__.split('.')[0]
    for head, number in heads_with_classes(model):
        # A detector's predictions are looked up in the classes; elsewhere classes may be left unused.
        if number < len(classes) or (library == 'mmdet' and number != len(classes)):
            raise ValueError(f'{name} has {len(classes)} classes and model.{head}.num_classes is {number}; set it to '
                             f"{len(classes)}, or the data set's metainfo=dict(classes=...) to the model's classes")


def heads_with_classes(model: nn.Module) -> Iterator[tuple[str, int]]:
    """Name and `num_classes` of the heads that tell the classes of the data set apart."""
    for name, module in bare_model(model).named_modules():
        number = getattr(module, 'num_classes', None)
        if isinstance(number, int) and _HEADS.fullmatch(name):
            yield name, number


def label_limits(model: nn.Module) -> tuple[int, int] | None:
    """The number of labels a classifier or segmentor has, and the one it ignores; None for other models."""
    model = bare_model(model)
    head = getattr(model, 'decode_head', None) or getattr(model, 'head', None)
    number = getattr(head, 'num_classes', None)
    return (number, getattr(head, 'ignore_index', -100)) if isinstance(number, int) else None
