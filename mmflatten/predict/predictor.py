"""A trained model on pictures of one's own."""
from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.structures import BaseDataElement

from mmflatten.checkpoints.rules import shorten
from mmflatten.config_files import require_parts
from mmflatten.console import quiet_libraries
from mmflatten.datasets.storage import read_rgb
from mmflatten.engine.checkpoints.files import require_whole
from mmflatten.engine.checkpoints.loading import load_all_of
from mmflatten.engine.checkpoints.reading import load_from_local, safe_reading
from mmflatten.engine.datasets import read_metainfo
from mmflatten.engine.setup import load_config
from mmflatten.errors import error_text
from mmflatten.predict.engines import use_engine
from mmflatten.tasks import task_of

# An image: a file, or RGB pixels (H, W, 3) of 0 to 255. Stereo takes a left and a right one.
Image = str | Path | np.ndarray | Sequence


class PredictionError(ValueError):
    """An image from which nothing could be predicted."""


class Predictor:
    """A config and a checkpoint, ready for images: OpenMMLab's inferencer of the task with strict, safe loading.

    The same images give what `mmflatten test` finds on them.

        predictor = Predictor('configs/digits/retinanet_flatten-swin-nano_fpn_digits.py', 'epoch_15.pth')
        predictor('scene.png').pred_instances.bboxes

    Args:
        config: A file, or what `Config.fromfile` made of it.
        checkpoint: A file of this config's model; every key must fit.
        device: `cpu`, `cuda` or `cuda:N`; None takes a GPU if there is one.
        engine: what runs the backbone: eager, compile, onnxruntime, openvino, or auto for OpenVINO, else ONNX
            Runtime, where installed.

    Attributes:
        task: its name, such as `detection`.
        spec: the `mmflatten.tasks.Task`.
        model: the module itself, in evaluation mode.
        classes: their names in the order of the labels; empty for stereo.

    Raises:
        CheckpointError: the checkpoint is missing, damaged or of another model.
        ValueError: it was trained on other classes than the config's.
    """

    def __init__(self, config: str | Path | Config, checkpoint: str | Path, device: str | None = None,
                 engine: str = 'eager') -> None:
        self.cfg = copy.deepcopy(config) if isinstance(config, Config) else load_config(str(config))
        require_parts(self.cfg, 'model', 'test_dataloader')
        self.spec, self.device = task_of(self.cfg), check_device(device)
        self.task, self.scope = self.spec.name, self.spec.scope
        require_whole(checkpoint)
        metainfo = read_metainfo(self.cfg)
        content = load_from_local(str(checkpoint), 'cpu')
        _require_same_classes(metainfo, content, checkpoint)
        # The scope of an earlier predictor of another library would stay.
        with safe_reading(), quiet_libraries(), DefaultScope.overwrite_default_scope(self.scope):
            self._inferencer = self.spec.inferencer(copy.deepcopy(self.cfg), str(checkpoint), self.device)
        self.model = self._inferencer.model
        load_all_of(content, self.model, str(checkpoint))
        use_engine(self.model, engine, self.device)
        self.classes: tuple[str, ...] = tuple(metainfo.get('classes') or ())
        self.model.dataset_meta = self.metainfo = metainfo

    def __call__(self, image: Image) -> BaseDataElement:
        """Predict from one image; the data sample holds `pred_instances`, `pred_sem_seg`, `pred_label` or the like.

        Raises:
            PredictionError: the image cannot be read or used.
        """
        sample = next(self.predict([image]))
        if isinstance(sample, PredictionError):
            raise sample
        return sample

    def predict(self, images: Iterable[Image], batch_size: int = 1) -> Iterator[BaseDataElement | PredictionError]:
        """Predict from image after image, in their order; for one that fails comes the error, and the rest goes on."""
        batch: list[Image] = []
        for image in images:
            batch.append(image)
            if len(batch) == batch_size:
                yield from self._predict_batch(batch)
                batch = []
        if batch:
            yield from self._predict_batch(batch)

    def prepare(self, image: Image) -> dict:
        """What the model's own `forward` takes of an image: `inputs` normalised and padded, and `data_samples`.

        Raises:
            PredictionError: the image cannot be read or used.
        """
        try:
            return self.model.data_preprocessor(self._preprocess([self._readable(image)]), False)
        except Exception as error:
            raise PredictionError(f'{_name(image)}: {_reason(image, error)}') from error

    def visualizer(self) -> Any:
        """The task's visualizer, which knows the classes and their colours."""
        return self.spec.visualizer(self.metainfo, (self.cfg.get('visualizer') or {}).get('type'))

    def _predict_batch(self, images: list[Image]) -> list[BaseDataElement | PredictionError]:
        try:
            return self._forward([self._readable(image) for image in images])
        except torch.cuda.OutOfMemoryError:
            raise
        except Exception as error:
            if len(images) > 1:  # which of them is it?
                return [self._predict_batch([image])[0] for image in images]
            return [PredictionError(f'{_name(images[0])}: {_reason(images[0], error)}')]

    @torch.no_grad()
    def _forward(self, images: list) -> list[BaseDataElement]:
        with DefaultScope.overwrite_default_scope(self.scope):
            return self._inferencer.forward(self._preprocess(images))

    def _preprocess(self, images: list) -> Any:
        with DefaultScope.overwrite_default_scope(self.scope):
            return self.spec.preprocess(self._inferencer, images)

    def _readable(self, image: Image) -> Any:
        """Files as text, pixels in the order that the libraries' inferencers expect (BGR)."""
        if self.spec.pairs:
            left, right = image
            return _readable_image(left), _readable_image(right)
        return _readable_image(image)


def check_device(device: str | None) -> str:
    """The device's name as PyTorch has it.

    Raises:
        ValueError: PyTorch has no such device.
    """
    if device is None:
        return 'cuda' if torch.cuda.is_available() else 'cpu'
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f'device ({device}) cannot be used here: {str(error).splitlines()[0]}; '
                         f'take {"cuda or " if torch.cuda.is_available() else ""}cpu') from error
    return device


def _require_same_classes(metainfo: dict, checkpoint: Any, file: str | Path) -> None:
    meta = checkpoint.get('meta') if isinstance(checkpoint, dict) else None
    trained = (meta or {}).get('dataset_meta') or {}
    if not isinstance(trained, dict) or not trained.get('classes') or not metainfo.get('classes'):
        return
    here, there = list(metainfo['classes']), list(trained['classes'])
    if here != there:
        raise ValueError(f'checkpoint {file} was trained on {len(there)} classes ({shorten(there, 5)}) and the config '
                         f'has {len(here)} ({shorten(here, 5)}); take the config that it was trained with')


def _readable_image(image: str | Path | np.ndarray) -> str | np.ndarray:
    if not isinstance(image, np.ndarray):
        return str(image)
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise PredictionError(f'an array of shape {image.shape} and type {image.dtype} is no image; it must be RGB, '
                              '(height, width, 3), uint8')
    return np.ascontiguousarray(image[..., ::-1])


def _reason(image: Image, error: Exception) -> str:
    if isinstance(image, (str, Path)):
        if not Path(image).exists():
            return 'does not exist; check the path'
        try:
            image = read_rgb(str(image))
        except (OSError, ValueError):  # a folder, or no image
            return 'cannot be decoded; is it a whole image, of a kind and size that OpenCV reads?'
    if isinstance(image, np.ndarray) and getattr(error, 'func', '') == 'resize':  # OpenCV's
        height, width = image.shape[:2]
        return f'has {width} x {height} pixels, and the resize of the config leaves a side of 0; cut it into pieces'
    return f'{type(error).__name__}: {error_text(error)}'


def _name(image: Image) -> str:
    if isinstance(image, np.ndarray):
        return f'image of {image.shape}'
    return ' and '.join(map(_name, image)) if isinstance(image, (list, tuple)) else str(image)
