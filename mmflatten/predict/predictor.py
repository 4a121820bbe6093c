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
from mmflatten.engine.image_input import COLOUR_LOADERS
from mmflatten.engine.pictures import disable_ghostscript
from mmflatten.engine.setup import load_config
from mmflatten.export.wrappers import ExportError
from mmflatten.predict.bands import BandsPipeline, loads_bands, with_colours
from mmflatten.runtime.configs import file_config, use_model
from mmflatten.runtime.files import is_model_file
from mmflatten.tasks import task_of
from mmflatten.untrusted.files import absolute_name, problem_of
from mmflatten.untrusted.images import problem_of_image

# A file, or RGB pixels (H, W, 3) from 0 to 255. Stereo models take a (left, right) pair of them.
Image = str | Path | np.ndarray | Sequence

# Their options that do not change how a file is decoded.
DEFAULT_DECODING = {'type', 'to_float32', 'backend_args'}


class PredictionError(ValueError):
    """Failed prediction of one image."""


class Predictor:
    """OpenMMLab's inferencer of the task with strict, safe loading.

    Predictions equal those of `mmflatten test`.

        config = 'configs/digits/retinanet_flatten-swin-nano_fpn_digits.py'
        predictor = Predictor(config, 'epoch_15.pth')
        predictor('scene.png').pred_instances.bboxes
        Predictor('model.onnx')('scene.png')

    Args:
        config: a file or a loaded config; or a file of `mmflatten export`, which needs no
            checkpoint.
        checkpoint: a file for the config's model, whose keys must all match, or a file of
            `mmflatten export`.
        device: `cpu`, `cuda` or `cuda:N`. Defaults to a GPU if available. Exported files run on
            the CPU.
        runtime: `onnxruntime` or `openvino` for an exported file; the default is ONNX Runtime, and
            OpenVINO for files of bfloat16.

    Attributes:
        task: the `mmflatten.tasks.Task`.
        model: module in evaluation mode.
        classes: class names in the order of the labels, empty for stereo.
        reads_bands: the test pipeline reads bands, so images are files of any bands.

    Raises:
        CheckpointError: the checkpoint is missing, damaged or belongs to another model.
        ExportError: the exported file cannot be used.
        ValueError: the classes of the checkpoint differ from those of the config.
    """

    def __init__(
        self,
        config: str | Path | Config,
        checkpoint: str | Path | None = None,
        device: str | None = None,
        *,
        runtime: str | None = None,
    ) -> None:
        self.cfg, checkpoint = _read(config, checkpoint)
        require_parts(self.cfg, 'model', 'test_dataloader')
        disable_ghostscript()
        self.task = task_of(self.cfg)
        metainfo = read_metainfo(self.cfg)
        content = None
        if use_model(self.cfg, checkpoint, runtime):
            self.device = _cpu_for(checkpoint, device)
        else:
            self.device = check_device(device)
            content = read_checkpoint(str(checkpoint), 'cpu')
            require_same(
                found=trained_classes(content),
                expected=metainfo.get('classes'),
                where=f'checkpoint {checkpoint}',
                other='the config',
                fix='Use the config of the training.',
            )
        register_reader()
        # The inferencer changes its config. Without a scope, it would use that of an earlier
        # predictor for another library.
        self.reads_bands = loads_bands(self.cfg)
        cfg = with_colours(self.cfg) if self.reads_bands else copy.deepcopy(self.cfg)
        with quiet_libraries(), DefaultScope.overwrite_default_scope(self.task.scope):
            self._inferencer = self.task.inferencer(cfg, None, self.device)
            self._bands = BandsPipeline(self.cfg) if self.reads_bands else None
        self.model = self._inferencer.model
        if content is not None:
            load_weights(self.model, content, str(checkpoint))
        self.classes: tuple[str, ...] = tuple(metainfo.get('classes') or ())
        self.model.dataset_meta = self.metainfo = metainfo

    def __call__(self, image: Image) -> BaseDataElement:
        """Return the data sample of one image.

        The prediction is in `pred_instances`, `pred_panoptic_seg`, `pred_sem_seg`, `pred_label` or
        `pred_disparity`.

        Raises:
            PredictionError: the image cannot be read or used.
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
        """Return the arguments of the model's `forward`.

        These are `inputs`, normalised and padded except for an exported file, and `data_samples`.

        Raises:
            PredictionError: the image cannot be read or used.
        """
        try:
            return self.model.data_preprocessor(self._preprocess([image]), False)
        except Exception as error:
            raise _failure(image, error) from error

    def read(self, image: Image) -> Image:
        """Return the pixels of files, so that a caller who draws them reads each file once.

        The image is returned unchanged if the config's pipeline decodes files in another way, or if
        a file cannot be read: the prediction then reports the error.
        """
        if not self._decodes_by_default():
            return image
        try:
            with quiet_decoders():
                if self.task.pairs:
                    left, right = image
                    return _pixels(left), _pixels(right)
                return _pixels(image)
        except (OSError, ValueError):
            return image

    def visualizer(self) -> Any:
        """Build the task's visualizer with the classes and palette of the data set."""
        options = self.cfg.get('visualizer') or {}
        return self.task.visualizer(self.metainfo, options.get('type'))

    def _decodes_by_default(self) -> bool:
        """Return True if the test pipeline decodes images as `read_rgb` does."""
        steps = self.cfg.test_dataloader.dataset.get('pipeline') or ()
        loading = [step for step in steps if str(step['type']).endswith(COLOUR_LOADERS)]
        return len(loading) == 1 and loading[0].keys() <= DEFAULT_DECODING

    @torch.no_grad()
    def _predict_batch(self, images: list[Image]) -> list[BaseDataElement | PredictionError]:
        try:
            batch = self._preprocess(images)
            with DefaultScope.overwrite_default_scope(self.task.scope):
                return self._inferencer.forward(batch)
        except torch.cuda.OutOfMemoryError:
            raise
        except Exception as error:
            if len(images) > 1:  # find the image that fails
                return [self._predict_batch([image])[0] for image in images]
            return [_failure(images[0], error)]

    def _preprocess(self, images: Sequence[Image]) -> Any:
        """Run the pipeline on a batch.

        The inferencers of the libraries expect paths as `str` and pixels in BGR.
        """
        if self._bands is not None:
            with DefaultScope.overwrite_default_scope(self.task.scope):
                return self._bands([_files_of(image) for image in images])
        if self.task.pairs:
            images = [(_readable(left), _readable(right)) for left, right in images]
        else:
            images = [_readable(image) for image in images]
        with DefaultScope.overwrite_default_scope(self.task.scope), quiet_decoders():
            return self.task.preprocess(self._inferencer, images)


def _read(config: str | Path | Config, checkpoint: str | Path | None) -> tuple[Config, str | Path]:
    """Return the config, and the checkpoint or exported file."""
    if checkpoint is None:
        if not is_model_file(config):
            raise ValueError(
                f'checkpoint: required with a config, got only {config}. Name a checkpoint, or a'
                ' file of `mmflatten export`.'
            )
        return file_config(config), config
    if isinstance(config, Config):
        return copy.deepcopy(config), checkpoint
    return load_config(str(config)), checkpoint


def _cpu_for(file: str | Path, device: str | None) -> str:
    if device not in (None, 'cpu'):
        raise ExportError(
            f'device: exported files run on the CPU, got {device} for {file}. Use cpu.'
        )
    return 'cpu'


def check_device(device: str | None) -> str:
    """Return the name of the device, by default a GPU if available.

    Raises:
        ValueError: PyTorch cannot use the device.
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


def _pixels(image: str | Path | np.ndarray) -> np.ndarray:
    return image if isinstance(image, np.ndarray) else read_rgb(str(image))


def _readable(image: str | Path | np.ndarray) -> str | np.ndarray:
    """Return an address, the absolute path of a file that is an image, or BGR pixels."""
    if isinstance(image, np.ndarray):
        return _bgr(image)
    if '://' in str(image):
        return str(image)
    problem = problem_of_image(image)
    if problem is not None:
        raise PredictionError(f'{image} {problem}. Check the path.')
    return absolute_name(image)


def _files_of(image: Image) -> str | tuple[str, str]:
    """Return the absolute path of a file of bands, or those of a pair."""
    if isinstance(image, (list, tuple)):
        left, right = image
        return _existing(left), _existing(right)
    return _existing(image)


def _existing(image: str | Path | np.ndarray) -> str:
    """Return the absolute path of a file of bands."""
    if isinstance(image, np.ndarray):
        raise PredictionError(
            f'image: expected a file for a pipeline that reads bands, got pixels of {image.shape}.'
        )
    problem = problem_of(image)
    if problem is not None:
        raise PredictionError(f'{image} {problem}. Check the path.')
    return absolute_name(image)


def _bgr(image: np.ndarray) -> np.ndarray:
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise PredictionError(
            'image: expected an RGB array of shape (height, width, 3) and dtype uint8, got shape '
            f'{image.shape} and dtype {image.dtype}.'
        )
    # No copy is made of a frame of a video, which is a view of BGR pixels.
    return np.ascontiguousarray(image[..., ::-1])


def _failure(image: Image, error: Exception) -> PredictionError:
    """Return the error of an image with its name, the problem and a fix."""
    if isinstance(error, PredictionError):
        return error
    # The libraries do not report why a file cannot be read.
    if isinstance(image, (str, Path)) and '://' not in str(image) and not is_ours(error):
        try:
            with quiet_decoders():
                read_rgb(str(image))
        except (OSError, ValueError) as unreadable:
            return PredictionError(str(unreadable))
    reason = error_text(error)
    if not is_ours(error):
        reason = f'{type(error).__name__}: {reason}'
    parts = image if isinstance(image, (list, tuple)) else [image]
    return PredictionError(f'{" and ".join(map(_name_of, parts))}: {reason}')


def _name_of(image: str | Path | np.ndarray) -> str:
    return f'image of {image.shape}' if isinstance(image, np.ndarray) else str(image)
