"""Images of other bands than red, green and blue: their norms, and a config that reads them."""

import copy
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pprint import pformat
from typing import Any, NamedTuple

import numpy as np
from mmengine.config import Config

from mmflatten.config import python_text
from mmflatten.custom_data.reading import DataError
from mmflatten.engine.image_input import COLOUR_LOADERS, loading_step
from mmflatten.tasks import task_of

# Transforms of colours, which other bands do not have.
COLOUR_TRANSFORMS = (
    'AutoAugment',
    'Brightness',
    'ColorJitter',
    'ColorTransform',
    'HSVRandomAug',
    'Lighting',
    'PhotoMetricDistortion',
    'PhotometricJitter',
    'RandAugment',
    'RandomErasing',
)


class Moments(NamedTuple):
    """Number of pixels, and sums of the values and of their squares for each band."""

    pixels: int
    sums: np.ndarray  # (C,) float64
    squares: np.ndarray  # (C,) float64


@dataclass(frozen=True)
class Norms:
    """Mean and standard deviation of each band."""

    mean: list[float]
    std: list[float]

    def __str__(self) -> str:
        pairs = zip(self.mean, self.std)
        return ', '.join(f'{mean:.4g} +- {std:.4g}' for mean, std in pairs)


def moments_of(image_HWC: np.ndarray) -> Moments:
    """Return the moments of an image's finite values; a band of NaN has the sum 0."""
    values = image_HWC.reshape(-1, image_HWC.shape[2]).astype(np.float64)
    values = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    return Moments(len(values), values.sum(axis=0), np.square(values).sum(axis=0))


def norms_of(moments: Iterable[Moments | None]) -> Norms:
    """Return the norms over all pixels of all images.

    Raises:
        DataError: the images have different numbers of bands.
    """
    known = [item for item in moments if item is not None]
    numbers = sorted({len(item.sums) for item in known})
    if len(numbers) != 1:
        raise DataError(
            f'--bands: expected images with the same number of bands, got {numbers}. Convert them,'
            ' or name folders of one kind.'
        )
    pixels = sum(item.pixels for item in known)
    mean = sum(item.sums for item in known) / pixels
    variance = sum(item.squares for item in known) / pixels - np.square(mean)
    std = np.sqrt(np.maximum(variance, 0))
    std[std == 0] = 1  # of a constant band
    return Norms(_rounded(mean), _rounded(std))


def _rounded(values: np.ndarray) -> list[float]:
    """Round to five significant digits."""
    rounded = []
    for value in values.tolist():
        digits = 4 - math.floor(math.log10(abs(value))) if value else 0
        rounded.append(round(value, digits))
    return rounded


def bands_config_text(base: Config, norms: Norms) -> str:
    """Write a config that inherits the base and reads all bands.

    `LoadBands` normalises them, in stereo the data preprocessor.
    """
    task = task_of(base)
    is_stereo = task.pairs
    loader = loading_step(task.scope, dict(mean=norms.mean, std=norms.std))
    left_out: set[str] = set()
    fields: dict[str, Any] = {}
    for name in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
        if base.get(name) is None:
            continue
        changed = _with_bands(base[name].to_dict(), loader, left_out)
        if changed is not None:
            fields[name] = changed
    fields |= _model_fields(base, norms, is_stereo)
    by = 'The data preprocessor' if is_stereo else 'LoadBands'
    other = 'the loader of the pairs' if is_stereo else 'the data preprocessor'
    lines = [
        f'"""The base for images of {len(norms.mean)} bands; from `mmflatten init --bands`."""',
        f'_base_ = [{os.path.realpath(base.filename)!r}]',
        f'# Mean and standard deviation are those of all images. {by} normalises,',
        f'# {other} does not.',
    ]
    if left_out:
        lines.append(f'# Left out, because they change colours: {", ".join(sorted(left_out))}.')
    for name, value in fields.items():
        lines.append(f'{name} = {pformat(value, width=100, sort_dicts=False)}')
    return python_text('\n'.join(lines) + '\n')


def _model_fields(base: Config, norms: Norms, is_stereo: bool) -> dict[str, Any]:
    """Return the fields of the model and of its data preprocessor."""
    number = len(norms.mean)
    model: dict[str, Any] = dict(backbone=dict(in_channels=number))
    preprocessor: dict[str, Any] = dict(mean=None, std=None)
    if is_stereo:
        model = dict(in_channels=number)
        preprocessor = dict(mean=norms.mean, std=norms.std)
    switch = 'to_rgb' if base.get('default_scope') == 'mmpretrain' else 'bgr_to_rgb'
    preprocessor[switch] = False
    fields: dict[str, Any] = {}
    if base.get('data_preprocessor') is not None:
        fields['data_preprocessor'] = preprocessor
    if base.model.get('data_preprocessor') is not None:
        model['data_preprocessor'] = preprocessor
    elif is_stereo and not fields:
        model['data_preprocessor'] = dict(type='mmflatten.StereoDataPreProcessor', **preprocessor)
    return dict(fields, model=model)


def _with_bands(node: Mapping[str, Any], loader: dict, left_out: set[str]) -> dict | None:
    """Return the fields of a loader's config that change, None if nothing does.

    A config inherits dictionaries field by field, and replaces a list as a whole.
    """
    changed: dict[str, Any] = {}
    for key, value in node.items():
        if key == 'pipeline' and isinstance(value, (list, tuple)):
            changed[key] = _pipeline(value, loader, left_out)
        elif isinstance(value, Mapping):
            inner = _with_bands(value, loader, left_out)
            if inner is not None:
                changed[key] = inner
        elif key == 'datasets':
            changed[key] = [_replaced(part, loader, left_out) for part in value]
    return changed or None


def _replaced(part: Mapping[str, Any], loader: dict, left_out: set[str]) -> dict:
    """Return a whole data set of a list with the changed fields."""
    whole = copy.deepcopy(dict(part))
    changed = _with_bands(part, loader, left_out) or {}
    for key, value in changed.items():
        is_part = isinstance(value, dict) and isinstance(whole.get(key), dict)
        whole[key] = _replaced(whole[key], loader, left_out) if is_part else value
    return whole


def _pipeline(steps: Iterable[Mapping[str, Any]], loader: dict, left_out: set[str]) -> list[dict]:
    kept = []
    for step in steps:
        kind = str(step.get('type'))
        if kind.rpartition('.')[2] in COLOUR_LOADERS:
            kept.append(dict(loader))
        elif any(name in kind for name in COLOUR_TRANSFORMS):
            left_out.add(kind)
        else:
            kept.append(_without_pillow(dict(step)))
    return kept


def _without_pillow(step: dict) -> dict:
    """Resize with OpenCV; Pillow cannot resize images of many bands."""
    if step.get('backend') == 'pillow':
        step['backend'] = 'cv2'
    return step
