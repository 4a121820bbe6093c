"""Pipeline whose errors name the files of the sample."""

from typing import Any

import torch
from mmengine.dataset import Compose

from mmflatten.console import error_text, explain, is_ours
from mmflatten.engine.class_checks import require_labels


class SampleError(RuntimeError):
    """A sample of a data set cannot be loaded or transformed."""


class NamingPipeline(Compose):
    """Pipeline of a data set whose errors name the files of the sample.

    OpenCV returns None and Pillow mentions a `BytesIO` if a file is not an image; only the pipeline
    has the path. Errors of our own classes pass unchanged, because they name the file.

    Attributes:
        labels: number of classes of the model and the label that its loss ignores; other labels
            are rejected. `CheckDataHook` sets it once there is a model; None skips the check.
    """

    labels: tuple[int, int] | None = None

    def __call__(self, data: dict) -> dict | None:
        # The transforms may remove or replace the paths.
        image, label_map = data.get('img_path'), data.get('seg_map_path')
        for transform in self.transforms:
            try:
                data = transform(data)
            except Exception as error:
                if is_ours(error):
                    raise
                message = _message(error, transform, image=image, label_map=label_map)
                raise SampleError(message) from error
            if data is None:
                return None
        if self.labels is not None and isinstance(data, dict):
            labels = _labels_of(data.get('data_samples'))
            if isinstance(labels, torch.Tensor) and not labels.is_floating_point():
                classes, ignored = self.labels
                path = label_map or image
                require_labels(labels=labels, classes=classes, ignored=ignored, path=path)
        return data


def _labels_of(sample: Any) -> Any:
    """Return the label map of a segmentation sample, or the label of a classification sample."""
    label_map = getattr(sample, 'gt_sem_seg', None)
    return getattr(sample, 'gt_label', None) if label_map is None else label_map.data


def _message(error: Exception, transform: Any, image: str | None, label_map: str | None) -> str:
    if isinstance(error, FileNotFoundError):
        return explain(error)
    step = getattr(transform, '__name__', type(transform).__name__)
    reason = f'{step}: {type(error).__name__}: {error_text(error)}'
    if step.startswith('Load'):
        path = label_map if 'Annotation' in step and label_map else image
        return (
            f'image {path} cannot be decoded ({reason}). Replace the file or remove it from the'
            ' data set.'
        )
    names = ' and '.join(str(path) for path in (image, label_map) if path)
    return f'sample {names or "without a file name"} cannot be prepared ({reason}).'
