"""Data sets whose errors name the data set, or the files of the sample, that cannot be loaded."""
import copy
from collections.abc import Iterator
from typing import Any

import torch
from mmengine.config import Config
from mmengine.dataset import Compose
from mmengine.registry import DATASETS

from mmflatten.classes import require_labels, require_usable
from mmflatten.console import quiet_libraries
from mmflatten.errors import error_text, explain, is_ours


class DatasetError(RuntimeError):
    """A data set cannot be built: files are missing or do not match the config."""


class SampleError(RuntimeError):
    """A sample of a data set cannot be loaded or transformed."""


def leaves(dataset: dict, times: int = 1) -> Iterator[tuple[dict, int]]:
    """Yield the data sets inside repeating and concatenating wrappers, and how often an epoch repeats each."""
    inner = [dataset['dataset']] if isinstance(dataset.get('dataset'), dict) else dataset.get('datasets')
    if not inner:
        yield dataset, times
    for part in inner or []:
        yield from leaves(part, times * dataset.get('times', 1))


def build_dataset(cfg: dict) -> Any:
    """Build a data set and read its list of samples.

    Raises:
        ClassesError: the class names in the config cannot be used.
        DatasetError: names the data set, its paths, and the command that creates them if there is one.
    """
    parts = [part for part, _ in leaves(cfg)]
    for part in parts:
        if isinstance(part.get('metainfo'), dict):  # MMEngine reports other types
            require_usable(part['metainfo'], f'data set {part.get("type")}')
    try:
        dataset = DATASETS.build(cfg)
        if hasattr(dataset, 'full_init'):
            dataset.full_init()
    except Exception as error:
        if is_ours(error):
            raise
        cfg = parts[0] if len(parts) == 1 else cfg
        paths = ', '.join(f'{name}={cfg[name]}' for name in ('data_root', 'ann_file', 'data_prefix') if cfg.get(name))
        raise DatasetError(f'data set {cfg.get("type")} ({paths}) cannot be read: {explain(error)}. Check data_root, '
                           'data_prefix, ann_file and filter_cfg in the config.') from error
    return dataset


def read_metainfo(cfg: Config, split: str = 'test') -> dict:
    """Return classes and palette of a config's data set without reading its files."""
    dataset, _ = next(leaves(cfg[f'{split}_dataloader'].dataset))
    with DATASETS.switch_scope_and_registry(cfg.get('default_scope', 'mmengine')) as registry, quiet_libraries():
        kind = registry.get(dataset['type']) if isinstance(dataset['type'], str) else dataset['type']
        if not hasattr(kind, 'METAINFO'):  # a plain PyTorch data set
            return {}
        return dict(registry.build({**copy.deepcopy(dataset), 'lazy_init': True, 'pipeline': []}).metainfo)


class NamingPipeline(Compose):
    """Pipeline of a data set whose errors name the files of the sample.

    OpenCV returns None and Pillow mentions a `BytesIO` if a file is not an image; only the pipeline knows the path.
    Errors of our own classes pass unchanged, because they name the file.

    Args:
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
        if self.labels is not None and isinstance(data, dict):
            sample = data.get('data_samples')
            truth = getattr(sample, 'gt_sem_seg', None)
            labels = getattr(sample, 'gt_label', None) if truth is None else truth.data
            if isinstance(labels, torch.Tensor) and not labels.is_floating_point():
                require_labels(labels, *self.labels, label_map or image)
        return data


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
