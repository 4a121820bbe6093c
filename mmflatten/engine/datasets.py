"""Data sets whose errors name the data set, or the files of the sample, that cannot be loaded."""
import copy
import os
from typing import Any

import torch
from mmengine.config import Config
from mmengine.dataset import Compose
from mmengine.registry import DATASETS, DefaultScope

from mmflatten.console import quiet_libraries
from mmflatten.errors import error_text, explain, is_ours

_PATHS = ('data_root', 'ann_file', 'data_prefix')


class DatasetError(RuntimeError):
    """A data set cannot be built: files are missing or do not match the config."""


class SampleError(RuntimeError):
    """A sample of a data set cannot be loaded or transformed."""


def build_dataset(cfg: dict) -> Any:
    """Build a data set and read its list of samples.

    Raises:
        DatasetError: names the data set, its paths, and the command that creates them if there is one.
    """
    _check_metainfo(cfg)
    try:
        dataset = DATASETS.build(cfg)
        if hasattr(dataset, 'full_init'):
            dataset.full_init()
    except Exception as error:
        if is_ours(error):
            raise
        cfg = _unwrapped(cfg)
        paths = ', '.join(f'{name}={cfg[name]}' for name in _PATHS if cfg.get(name))
        raise DatasetError(f'data set {cfg.get("type")} ({paths}) cannot be read: {explain(error)}. Check data_root, '
                           'data_prefix, ann_file and filter_cfg in the config.') from error
    return dataset


def _unwrapped(cfg: dict) -> dict:
    while isinstance(cfg.get('dataset'), dict):
        cfg = cfg['dataset']
    return cfg


def _check_metainfo(cfg: dict) -> None:
    """Reject class names that MMEngine 0.10 would ignore, or read letter by letter."""
    cfg = _unwrapped(cfg)
    for part in cfg.get('datasets') or []:
        _check_metainfo(part)
    metainfo = cfg.get('metainfo')
    if not isinstance(metainfo, dict):  # MMEngine reports other types
        return
    for key in ('CLASSES', 'PALETTE'):
        if key in metainfo:
            raise DatasetError(f'metainfo of data set {cfg.get("type")} has {key}, which is ignored. Use the keys '
                               'classes and palette.')
    classes = metainfo.get('classes')
    if isinstance(classes, str) and not os.path.isfile(classes):
        raise DatasetError(f'metainfo.classes of data set {cfg.get("type")}: expected a sequence of names or a file, '
                           f'got {classes!r}. For a single class, write classes=({classes!r}, ).')


def read_metainfo(cfg: Config) -> dict:
    """Return classes and palette of the config's test data set without reading its files."""
    dataset = copy.deepcopy(_unwrapped(cfg.test_dataloader.dataset))
    with DefaultScope.overwrite_default_scope(cfg.default_scope), quiet_libraries():
        return dict(DATASETS.build({**dataset, 'lazy_init': True, 'pipeline': []}).metainfo)


class NamingPipeline(Compose):
    """Pipeline of a data set whose errors name the files of the sample.

    OpenCV returns None and Pillow mentions a `BytesIO` if a file is not an image; only the pipeline knows the path.
    Errors of our own classes pass unchanged, because they name the file.

    Args:
        transforms: transforms of the original pipeline.
        labels: number of classes of the model and the label it ignores, to reject other labels. None skips the check.
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
            _check_labels(data, *self.labels, label_map or image)
        return data


def _check_labels(results: Any, number: int, ignored: int, path: str | None) -> None:
    """Raise SampleError if the ground truth of a classifier or segmentor has a label that is not a class."""
    sample = results.get('data_samples') if isinstance(results, dict) else None
    truth = getattr(sample, 'gt_sem_seg', None)
    labels = getattr(sample, 'gt_label', None) if truth is None else truth.data
    if not isinstance(labels, torch.Tensor) or labels.is_floating_point():
        return
    unknown = labels[(labels != ignored) & ((labels < 0) | (labels >= number))]
    if unknown.numel():
        raise SampleError(f'{path} has the label {unknown[0].item()}, and the model has {number} classes (0 to '
                          f'{number - 1}). Correct the label, or num_classes of the head.')


def _message(error: Exception, transform: Any, image: str | None, label_map: str | None) -> str:
    if isinstance(error, FileNotFoundError):
        return explain(error)
    step = getattr(transform, '__name__', type(transform).__name__)
    reason = f'{step}: {type(error).__name__}: {error_text(error)}'
    if step.startswith('Load'):
        path = label_map if 'Annotation' in step and label_map else image
        return f'image {path} cannot be decoded ({reason}). Replace the file or remove it from the data set.'
    names = ' and '.join(str(path) for path in (image, label_map) if path)
    return f'sample {names or "without a file name"} cannot be prepared ({reason}).'
