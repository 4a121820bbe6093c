"""Predictions of a trained model for any image."""

import copy
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.structures import BaseDataElement

from mmflatten.checkpoints.loading import load_weights, read_checkpoint, register_reader
from mmflatten.config import require_parts
from mmflatten.console import error_text, is_ours, quiet_decoders, quiet_libraries
from mmflatten.datasets.storage import read_rgb
from mmflatten.engine.class_checks import require_same, trained_classes
from mmflatten.engine.datasets import read_metainfo
from mmflatten.engine.pictures import disable_ghostscript
from mmflatten.engine.setup import load_config
from mmflatten.files import absolute_name, problem_of_image
from mmflatten.tasks import task_of

# A file, or RGB pixels (H, W, 3) from 0 to 255. Stereo models take a (left, right) pair of them.
Image = str | Path | np.ndarray | Sequence


class PredictionError(ValueError):
    """Failed prediction of one image."""


class Predictor:
    """OpenMMLab's inferencer of the task with strict, safe loading. Predictions equal those of
    `mmflatten test`.

        predictor = Predictor('configs/digits/retinanet_flatten-swin-nano_fpn_digits.py',
        'epoch_15.pth') predictor('scene.png').pred_instances.bboxes

    Args:
        config: a file or a loaded config.
        checkpoint: a file for the config's model. All keys must match.
        device: `cpu`, `cuda` or `cuda:N`. Defaults to a GPU if available.

    Attributes:
        task: name of the task, such as `detection`.
        spec: the `mmflatten.tasks.Task`.
        model: module in evaluation mode.
        classes: class names in the order of the labels, empty for stereo.

    Raises:
        CheckpointError: the checkpoint is missing, damaged or belongs to another model.
        ValueError: the classes of the checkpoint differ from those of the config.
    """

    def __init__(
        self, config: str | Path | Config, checkpoint: str | Path, device: str | None = None
    ) -> None:
        self.cfg = copy.deepcopy(config) if isinstance(config, Config) else load_config(str(config))
        require_parts(self.cfg, 'model', 'test_dataloader')
        disable_ghostscript()
        self.spec, self.device = task_of(self.cfg), check_device(device)
        self.task, self.scope = self.spec.name, self.spec.scope
        metainfo = read_metainfo(self.cfg)
        content = read_checkpoint(str(checkpoint), 'cpu')
        require_same(
            trained_classes(content),
            metainfo.get('classes'),
            f'checkpoint {checkpoint}',
            'the config',
            'Use the config of the training.',
        )
        register_reader()
        # Otherwise the scope of an earlier predictor for another library remains.
        with quiet_libraries(), DefaultScope.overwrite_default_scope(self.scope):
            self._inferencer = self.spec.inferencer(copy.deepcopy(self.cfg), None, self.device)
        self.model = self._inferencer.model
        load_weights(self.model, content, str(checkpoint))
        self.classes: tuple[str, ...] = tuple(metainfo.get('classes') or ())
        self.model.dataset_meta = self.metainfo = metainfo

    def __call__(self, image: Image) -> BaseDataElement:
        """Predict one image, as `pred_instances`, `pred_sem_seg`, `pred_label` or `pred_disparity`
        of a data sample.

        Raises PredictionError if the image cannot be read or used.
        """
        (sample,) = self._predict_batch([image])
        if isinstance(sample, PredictionError):
            raise sample
        return sample

    def predict(
        self, images: Iterable[Image], batch_size: int = 1
    ) -> Iterator[BaseDataElement | PredictionError]:
        """Predict images in order. A failed image yields its error in place of a data sample."""
        images = iter(images)
        while batch := list(islice(images, batch_size)):
            yield from self._predict_batch(batch)

    def prepare(self, image: Image) -> dict:
        """Return the arguments of the model's `forward`: normalised, padded `inputs`, and
        `data_samples`.
        """
        try:
            return self.model.data_preprocessor(self._preprocess([image]), False)
        except Exception as error:
            raise _failure(image, error) from error

    def visualizer(self) -> Any:
        """Build the task's visualizer with the classes and palette of the data set."""
        return self.spec.visualizer(self.metainfo, (self.cfg.get('visualizer') or {}).get('type'))

    @torch.no_grad()
    def _predict_batch(self, images: list[Image]) -> list[BaseDataElement | PredictionError]:
        try:
            batch = self._preprocess(images)
            with DefaultScope.overwrite_default_scope(self.scope):
                return self._inferencer.forward(batch)
        except torch.cuda.OutOfMemoryError:
            raise
        except Exception as error:
            if len(images) > 1:  # find the image that fails
                return [self._predict_batch([image])[0] for image in images]
            return [_failure(images[0], error)]

    def _preprocess(self, images: Sequence[Image]) -> Any:
        """Run the pipeline on paths as `str` and pixels in BGR, as the inferencers of the libraries
        expect.
        """
        if self.spec.pairs:
            images = [(_readable(left), _readable(right)) for left, right in images]
        else:
            images = [_readable(image) for image in images]
        with DefaultScope.overwrite_default_scope(self.scope), quiet_decoders():
            return self.spec.preprocess(self._inferencer, images)


def check_device(device: str | None) -> str:
    """Return the name of the device, by default a GPU if available. Raises ValueError if PyTorch
    cannot use it.
    """
    default = 'cuda' if torch.cuda.is_available() else 'cpu'
    try:
        torch.empty(0, device=device or default)
    except (RuntimeError, AssertionError) as error:
        problem = str(error).splitlines()[0]
        raise ValueError(
            f'device: not available ({problem}), got {device}. Use {default}.'
        ) from error
    return device or default


def _readable(image: str | Path | np.ndarray) -> str | np.ndarray:
    if not isinstance(image, np.ndarray):
        if '://' in str(image):
            return str(image)
        if (problem := problem_of_image(image)) is not None:
            raise PredictionError(f'{image} {problem}. Check the path.')
        return absolute_name(image)
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise PredictionError(
            'image: expected an RGB array of shape (height, width, 3) and dtype uint8, got shape '
            f'{image.shape} and dtype {image.dtype}.'
        )
    return np.ascontiguousarray(image[..., ::-1])


def _failure(image: Image, error: Exception) -> PredictionError:
    """Return the error of an image with its name, the problem and a fix."""
    if isinstance(error, PredictionError):
        return error
    parts = image if isinstance(image, (list, tuple)) else [image]
    names = [
        f'image of {part.shape}' if isinstance(part, np.ndarray) else str(part) for part in parts
    ]
    text = error_text(error)
    reason = text if is_ours(error) else f'{type(error).__name__}: {text}'
    if isinstance(image, (str, Path)) and '://' not in str(image):
        try:
            with quiet_decoders():
                read_rgb(str(image))
        except (OSError, ValueError) as unreadable:  # a folder, or not an image
            return PredictionError(str(unreadable))
    return PredictionError(f'{" and ".join(names)}: {reason}')
