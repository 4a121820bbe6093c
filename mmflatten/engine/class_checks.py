"""Checks that the classes of a data set agree with the heads of a model, a checkpoint and another
data set.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mmengine.runner import BaseLoop, Runner
from torch import Tensor, nn

from mmflatten.text import shorten

# paths in a model
HEADS = re.compile(r'(?:^|.*\.)(?:head|decode_head|auxiliary_head|bbox_head|mask_head)(?:\.\d+)?')


class ClassesError(ValueError):
    """Classes that do not agree, or that would be ignored."""


def wrong_heads(model: nn.Module, classes: int, where: str, exact: bool) -> Iterator[str]:
    """Yield a message for each head whose `num_classes` does not match the number of classes of a
    data set.

    Args:
        classes: 0 if the number is unknown.
        where: field of the data set in the config.
        exact: reject heads with more classes too.
    """
    if not classes:
        return
    kind = 'classes'
    fusion = getattr(model, 'panoptic_fusion_head', None)
    things = getattr(fusion, 'num_things_classes', None)
    if isinstance(things, int):
        stuff = fusion.num_stuff_classes
        if things + stuff != classes:
            yield (
                'model.panoptic_fusion_head: expected num_things_classes + num_stuff_classes ='
                f' {classes}, the number of classes of {where}, got {things} + {stuff}. Correct'
                ' them, or set metainfo=dict(classes=...) of the data set.'
            )
        classes, kind = things, 'things'  # of the heads of boxes and masks
    for name, head in model.named_modules():
        number = getattr(head, 'num_classes', None)
        if not isinstance(number, int) or not HEADS.fullmatch(name):
            continue
        if number < classes or (exact and number != classes):
            yield (
                f'model.{name}.num_classes: expected {classes}, the number of {kind} of {where},'
                f' got {number}. Correct it, or set metainfo=dict(classes=...) of the data set.'
            )


def require_same(
    found: Sequence[str], expected: Sequence[str], where: str, other: str, fix: str
) -> None:
    """Raise ClassesError if two lists of names differ; an empty list is unknown and fits any
    other.
    """
    found, expected = tuple(found or ()), tuple(expected or ())
    if found and expected and found != expected:
        raise ClassesError(
            f'{where}: expected the {len(expected)} classes of {other} ({shorten(expected, 5)}),'
            f' got {len(found)} ({shorten(found, 5)}). {fix}'
        )


def trained_classes(checkpoint: Any) -> Sequence[str]:
    """Return the class names in a checkpoint of MMEngine; empty if it has none."""
    for name in ('meta', 'dataset_meta', 'classes'):
        checkpoint = checkpoint.get(name) if isinstance(checkpoint, dict) else None
    return checkpoint or ()


def require_usable(metainfo: Mapping, where: str) -> None:
    """Raise ClassesError for class names that MMEngine 0.10 would ignore, or read letter by
    letter.
    """
    for key in ('CLASSES', 'PALETTE'):
        if key in metainfo:
            raise ClassesError(
                f'metainfo of {where}: {key} is ignored. Use the keys classes and palette.'
            )
    classes = metainfo.get('classes')
    if isinstance(classes, str) and not os.path.isfile(classes):
        raise ClassesError(
            f'metainfo.classes of {where}: expected a sequence of names or a file, got {classes!r}.'
            f' For a single class, write classes=({classes!r}, ).'
        )


def require_labels(labels: Tensor, classes: int, ignored: int, path: str | None) -> None:
    """Raise ClassesError if integer labels contain one that is neither a class nor ignored by the
    loss.
    """
    unknown = labels[(labels != ignored) & ((labels < 0) | (labels >= classes))]
    if unknown.numel():
        raise ClassesError(
            f'{path} has the label {unknown[0].item()}, and the model has {classes} classes (0 to '
            f'{classes - 1}). Correct the label, or num_classes of the head.'
        )


def compare_classes(runner: Runner, checkpoint: dict, filename: str, fine_tuning: bool) -> None:
    """Compare the classes in a checkpoint with those of the data it is used on; unknown ones fit
    any other.

    Raises ClassesError, or logs a warning if the weights are those before a fine-tuning.
    """
    loops = {'train': runner._train_loop, 'test': runner._test_loop, 'val': runner._val_loop}
    built = [split for split, loop in loops.items() if isinstance(loop, BaseLoop)]
    if not built:
        return
    split = built[0]
    try:
        require_same(
            found=classes_of(loops[split].dataloader.dataset),
            expected=trained_classes(checkpoint),
            where=f'{split}_dataloader.dataset',
            other=f'checkpoint {filename}',
            fix='Set metainfo=dict(classes=...) to the classes of the checkpoint; categories of a'
            ' COCO file have their order.',
        )
    except ClassesError as error:
        if not fine_tuning:
            raise
        runner.logger.warning(
            f'load_from: if its size matches, the head keeps the weights of other classes. {error}'
        )


def classes_of(dataset: Any) -> Sequence[str]:
    """Return the classes of a data set; empty if it has none.

    Raises ClassesError if the data sets in a wrapper have different ones.
    """
    first, *others = [
        getattr(part, 'metainfo', {}).get('classes') or () for part in innermost_datasets(dataset)
    ]
    for other in others:
        require_same(
            found=other,
            expected=first,
            where='one of the concatenated data sets',
            other='the first',
            fix='Set the same metainfo=dict(classes=...) in all.',
        )
    return first


def innermost_datasets(dataset: Any) -> list[Any]:
    """Return the data sets in wrappers, or the data set itself."""
    return [part for part in with_inner(dataset) if not _inner(part)]


def with_inner(dataset: Any) -> Iterator[Any]:
    """Yield a data set and those that it wraps (repeated, concatenated, class-balanced, mixed)."""
    yield dataset
    for part in _inner(dataset):
        yield from with_inner(part)


def _inner(dataset: Any) -> list[Any]:
    """Return the data sets that a wrapper holds directly; empty for other data sets."""
    single = getattr(dataset, 'dataset', None)
    several = [part for part in getattr(dataset, 'datasets', None) or [] if part is not None]
    return several if single is None else [single, *several]
