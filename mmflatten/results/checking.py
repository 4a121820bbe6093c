"""Checks of stored predictions: pycocotools and NumPy would crash or fill the memory with wrong
ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mmflatten.datasets.masks import can_be_drawn

FAR = 1e9  # pixels from the origin
TYPES: dict[str, tuple[type, ...]] = dict(
    img_path=(str,),
    right_path=(str,),
    img_id=(int, float, str),
    ori_shape=(tuple, list, torch.Size),
    pred_score=(Tensor,),
    pred_label=(Tensor,),
    gt_label=(Tensor,),
)


class ResultsError(ValueError):
    """A file has no predictions, or the predictions cannot be evaluated."""


def check_entries(entries: Any, path: Path) -> None:
    """Raise ResultsError unless these are entries as `DumpPredictions` writes them, as far as their
    fields are known.

    The message does not format values, because a nested one could be endless.
    """
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ResultsError(
            f'results: expected a list with a dictionary for each image in {path}, got a '
            f'{type(entries).__name__}.'
        )
    for number, entry in enumerate(entries):
        for name, value in entry.items():
            try:
                problem = _problem(entry, name, value)
            except (LookupError, RuntimeError, TypeError) as error:  # a missing part, or no number
                problem = (
                    f'{name}: expected the fields of a prediction, got {type(error).__name__}:'
                    f' {error}'
                )
            if problem:
                raise ResultsError(f'results: {path}, entry {number}: {problem}. Test again.')


def _problem(entry: dict, name: Any, value: Any) -> str:
    """Describe the problem of a field; '' if there is none."""
    if not isinstance(name, str):
        return f'expected names of fields, got a {type(name).__name__}'
    if name.endswith(('_instances', '_sem_seg', '_panoptic_seg', '_disparity')):
        return _problem_of_parts(name, value, entry.get('ori_shape'))
    known = TYPES.get(name, (object,))
    if not isinstance(value, known):
        return f'{name}: expected a {known[0].__name__}, got a {type(value).__name__}'
    if isinstance(value, Tensor) and not _has_numbers(value):
        return _not_numbers(name, value)
    if name == 'ori_shape' and not _is_size(value):
        return 'ori_shape: expected height and width above 0, got others'
    return ''


def _problem_of_parts(name: str, value: Any, shape: Sequence[int] | None) -> str:
    """Describe the problem of instances, a label map or a disparity map."""
    if not isinstance(value, dict):
        return f'{name}: expected a dict, got a {type(value).__name__}'
    for key, part in value.items():
        kind = list if key == 'masks' else Tensor
        if not isinstance(part, kind):
            return f'{name}.{key}: expected a {kind.__name__}, got a {type(part).__name__}'
        if isinstance(part, Tensor) and not _has_numbers(part):
            return _not_numbers(f'{name}.{key}', part)
    if name.endswith('_instances'):
        return _problem_of_instances(value, shape, name) if value else ''
    if name.endswith(('_sem_seg', '_panoptic_seg')):
        for key, labels in value.items():
            if labels.numel() and labels.min() < 0:
                return f'{name}.{key}: expected labels of at least 0, got {labels.min()}'
    return ''


def _not_numbers(name: str, values: Tensor) -> str:
    return f'{name}: expected a dense tensor of real numbers, got {values.dtype}, {values.layout}'


def _is_size(value: Sequence[Any]) -> bool:
    return len(value) >= 2 and all(type(side) is int and side > 0 for side in value)


def _has_numbers(values: Tensor) -> bool:
    return values.layout == torch.strided and not (
        values.is_quantized or values.is_complex() or values.is_meta
    )


def _problem_of_instances(instances: dict, shape: Sequence[int] | None, name: str) -> str:
    boxes, labels = instances['bboxes'], instances['labels']
    lengths = {len(part) for part in instances.values()}
    if boxes.shape != (len(labels), 4) or lengths != {len(labels)}:
        return f'{name}: expected as many labels, scores and masks as boxes, got others'
    if not (boxes.abs() < FAR).all():  # NaN, too
        return f'{name}.bboxes: expected finite numbers below {FAR:g}, got others'
    if labels.is_floating_point() or (labels < 0).any():
        return f'{name}.labels: expected integers of at least 0, got others'
    if not all(_is_mask(mask, shape) for mask in instances.get('masks', ())):
        return f'{name}.masks: expected run lengths of an image of ori_shape, got others'
    return ''


def _is_mask(mask: Any, shape: Sequence[int] | None) -> bool:
    """Return True for the compressed run lengths of a mask (H, W)."""
    if shape is None or not isinstance(mask, dict):
        return False
    if not isinstance(mask.get('counts'), (bytes, str)):
        return False
    return can_be_drawn(mask, dict(height=shape[0], width=shape[1]))
