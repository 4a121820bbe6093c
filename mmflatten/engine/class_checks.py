"""Checks that the classes of a data set agree with the heads of a model, a checkpoint and another
data set.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
    for name, head in model.named_modules():
        number = getattr(head, 'num_classes', None)
        if not classes or not isinstance(number, int) or not HEADS.fullmatch(name):
            continue
        if number < classes or (exact and number != classes):
            yield (
                f'model.{name}.num_classes: expected {classes}, the number of classes of {where},'
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


def leaves_of(dataset: Any) -> list[Any]:
    """Return the data sets in wrappers, or the data set itself."""
    return [
        part
        for part in with_inner(dataset)
        if getattr(part, 'dataset', None) is None and not getattr(part, 'datasets', None)
    ]


def with_inner(dataset: Any) -> Iterator[Any]:
    """Yield a data set and those that it wraps (repeated, concatenated, class-balanced, mixed)."""
    yield dataset
    for part in (getattr(dataset, 'dataset', None), *(getattr(dataset, 'datasets', None) or [])):
        if part is not None:
            yield from with_inner(part)
