"""Pipelines whose errors name the files of the sample and the transform's place in the config."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from mmengine.dataset import Compose

from mmflatten.console import explain, is_ours
from mmflatten.engine.class_checks import require_labels


class SampleError(RuntimeError):
    """A sample of a data set cannot be loaded or transformed."""


class NamingPipeline(Compose):
    """Pipeline of a data set whose errors name the files of the sample.

    OpenCV returns None and Pillow mentions a `BytesIO` if a file is not an image; only the pipeline
    has the path. Errors of our own classes pass unchanged, because they name the file.

    Attributes:
        place: field of the pipeline in the config.
        labels: number of classes of the model and the label that its loss ignores; other labels
            are rejected. `CheckDataHook` sets it once there is a model; None skips the check.
    """

    place = 'pipeline'
    labels: tuple[int, int] | None = None

    def __call__(self, data: dict) -> dict | None:
        # The transforms may remove or replace the paths.
        image, label_map = data.get('img_path'), data.get('seg_map_path')
        for index, transform in enumerate(self.transforms):
            try:
                data = transform(data)
            except Exception as error:
                if is_ours(error):
                    raise
                message = _message(
                    error, transform, self.place, index, images=[image], label_map=label_map
                )
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


class NamedTransform:
    """A transform in the list of a wrapper, such as `MultiImageMixDataset`, whose errors name the
    files of the samples that it mixes.

    Attributes:
        place: field of the list in the config.
        index: position in the list.
    """

    place = 'pipeline'

    def __init__(self, transform: Any, index: int) -> None:
        self.transform = transform
        self.index = index

    def __call__(self, data: dict) -> dict | None:
        # As above, the transform may change the paths.
        images = list(_images_of(data))
        label_map = data.get('seg_map_path')
        try:
            return self.transform(data)
        except Exception as error:
            if is_ours(error):
                raise
            message = _message(
                error, self.transform, self.place, self.index, images=images, label_map=label_map
            )
            raise SampleError(message) from error

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the transform, such as `get_indexes`, which the wrapper calls."""
        # A copy that has no attributes yet would look for its transform without end.
        if name == 'transform' or name.startswith('__'):
            raise AttributeError(name)
        return getattr(self.transform, name)


def _images_of(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the path of a sample and those of the samples that are mixed into it."""
    for part in (data, *(data.get('mix_results') or ())):
        if part.get('img_path'):
            yield part['img_path']


def _labels_of(sample: Any) -> Any:
    """Return the label map of a segmentation sample, or the label of a classification sample."""
    label_map = getattr(sample, 'gt_sem_seg', None)
    return getattr(sample, 'gt_label', None) if label_map is None else label_map.data


def _message(
    error: Exception,
    transform: Any,
    place: str,
    index: int,
    *,
    images: list[str | None],
    label_map: str | None,
) -> str:
    if isinstance(error, FileNotFoundError):
        return explain(error)
    step = getattr(transform, '__name__', type(transform).__name__)
    reason = f'{place}.{index}, {step}: {explain(error)}'
    if step.startswith('Load'):
        path = label_map if 'Annotation' in step and label_map else images[0]
        return (
            f'image {path} cannot be decoded ({reason}). Replace the file or remove it from the'
            ' data set.'
        )
    names = ' and '.join(str(path) for path in (*images, label_map) if path)
    return f'sample {names or "without a file name"} cannot be prepared ({reason}).'
