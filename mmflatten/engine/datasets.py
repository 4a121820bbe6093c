"""Data sets whose failures name their files: the data set that cannot be built, the sample that cannot be loaded."""
import copy
import os
from typing import Any

import torch
from mmengine.config import Config
from mmengine.dataset import Compose
from mmengine.registry import DATASETS, DefaultScope

from mmflatten.console import quiet_libraries
from mmflatten.errors import error_text, explain, is_ours

_PLACES = ('data_root', 'ann_file', 'data_prefix')


class DatasetError(RuntimeError):
    """A data set that cannot be built: files are missing, or hold something else than the config expects."""


class SampleError(RuntimeError):
    """A sample of a data set could not be loaded or transformed."""


def build_dataset(cfg: dict) -> Any:
    """Build a data set and read its list of samples.

    Raises:
        DatasetError: names the data set, the places it reads, and the command that makes them where one is known.
    """
    _require_readable_metainfo(cfg)
    try:
        dataset = DATASETS.build(cfg)
        if hasattr(dataset, 'full_init'):
            dataset.full_init()
    except Exception as error:
        if is_ours(error):
            raise
        while isinstance(cfg.get('dataset'), dict):
            cfg = cfg['dataset']
        places = ', '.join(f'{name}={cfg[name]}' for name in _PLACES if cfg.get(name))
        raise DatasetError(f'data set {cfg.get("type")} ({places}) cannot be read: {explain(error)}; check '
                           'data_root, data_prefix, ann_file and filter_cfg in the config') from error
    return dataset


def _require_readable_metainfo(cfg: dict) -> None:
    """Refuse class names that MMEngine would ignore, or read letter by letter."""
    while isinstance(cfg.get('dataset'), dict):
        cfg = cfg['dataset']
    for part in cfg.get('datasets') or []:
        _require_readable_metainfo(part)
    metainfo = cfg.get('metainfo')
    if not isinstance(metainfo, dict):  # MMEngine has an error for what is no mapping
        return
    for key in ('CLASSES', 'PALETTE'):
        if key in metainfo:
            raise DatasetError(f'metainfo of data set {cfg.get("type")} has {key}, which is ignored; the keys are '
                               'classes and palette')
    classes = metainfo.get('classes')
    if isinstance(classes, str) and not os.path.isfile(classes):
        raise DatasetError(f'metainfo.classes ({classes!r}) of data set {cfg.get("type")} is one text, read letter by '
                           f'letter; a single name keeps its comma, classes=({classes!r}, ), and a file of names must '
                           'exist')


def read_metainfo(cfg: Config) -> dict:
    """Classes and palette of the config's test data set, whose files are not read."""
    dataset = copy.deepcopy(cfg.test_dataloader.dataset)
    while 'dataset' in dataset:
        dataset = dataset.dataset
    with DefaultScope.overwrite_default_scope(cfg.default_scope), quiet_libraries():
        return dict(DATASETS.build({**dataset, 'lazy_init': True, 'pipeline': []}).metainfo)


class NamingPipeline(Compose):
    """A data set's pipeline whose errors say which files the sample was made of.

    OpenCV returns None and Pillow speaks of a `BytesIO` when bytes are no image; the path is known here alone, in the
    process that reads it. Errors of our own classes pass unchanged: they name the file themselves.

    Args:
        transforms: the steps of the data set's own pipeline.
        labels: how many labels the model knows, and the one it ignores; a label beyond them is an error too. None for
            a model that does not say.
    """

    def __init__(self, transforms: list, labels: tuple[int, int] | None = None) -> None:
        super().__init__(transforms)
        self.labels = labels

    def __call__(self, data: dict) -> dict | None:
        image, label_map = data.get('img_path'), data.get('seg_map_path')
        for transform in self.transforms:
            try:
                data = transform(data)
            except Exception as error:
                if is_ours(error):
                    raise
                raise SampleError(_message(error, transform, image, label_map)) from error
            if data is None:
                return None
        if self.labels is not None:
            _require_known_labels(data, *self.labels, label_map or image)
        return data


def _require_known_labels(results: Any, number: int, ignored: int, path: str | None) -> None:
    """Raise `SampleError` where the truth of a classifier's or segmentor's sample is no class of the model."""
    sample = results.get('data_samples') if isinstance(results, dict) else None
    truth = getattr(sample, 'gt_sem_seg', None)
    labels = getattr(sample, 'gt_label', None) if truth is None else truth.data
    if not isinstance(labels, torch.Tensor) or labels.is_floating_point():
        return
    unknown = labels[(labels != ignored) & ((labels < 0) | (labels >= number))]
    if unknown.numel():
        raise SampleError(f'{path} has the label {unknown[0].item()}, and the model has {number} classes (0 to '
                          f'{number - 1}); correct the label, or num_classes of the head')


def _message(error: Exception, transform: Any, image: str | None, label_map: str | None) -> str:
    if isinstance(error, FileNotFoundError):
        return explain(error)
    step = getattr(transform, '__name__', type(transform).__name__)
    reason = f'{step}: {type(error).__name__}: {error_text(error)}'
    if step.startswith('Load'):
        path = label_map if 'Annotation' in step and label_map else image
        return f'image {path} cannot be decoded ({reason}); replace the file or take it out of the data set'
    names = ' and '.join(str(path) for path in (image, label_map) if path)
    return f'the sample of {names or "an unnamed file"} cannot be prepared ({reason})'
