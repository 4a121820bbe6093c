"""Base of the exported models, whose inputs and outputs are plain tensors."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mmflatten.engine.pictures import takes_rgb
from mmflatten.models.backbones.base import image_bands
from mmflatten.models.layers import pad_to_multiple
from mmflatten.tasks import task_of_model, tasks


class ExportError(ValueError):
    """A model cannot be exported with the requested options, or an exported file cannot be used."""


class ExportedModel(nn.Module):
    """Model that maps raw RGB images `(B, 3, H, W)`, float32 from 0 to 255, to a tuple of tensors.

    After `use_bands`, images have all bands of their files `(B, C, H, W)`, float32.

    Attributes:
        bands: arguments of `LoadBands` without norms; None for colours.
        normalises: the data preprocessor has a mean and a standard deviation.
        task, inputs, outputs: names of the task, inputs and outputs, for the metadata.
        stride: stride of the coarsest map.
        opens_batch: an export with open sizes also leaves the batch open.
        outliers: fraction of the errors that a comparison ignores.
    """

    task = 'features'
    inputs: tuple[str, ...] = ('image',)
    outputs: tuple[str, ...]
    opens_batch = True
    outliers = 0.0

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.bands: dict[str, Any] | None = None
        preprocessor = model.data_preprocessor
        self.flip = not takes_rgb(preprocessor)  # the network sees BGR
        mean, std = torch.zeros(3, 1, 1), torch.ones(3, 1, 1)
        # Data preprocessors without the flag normalise if they have a mean.
        self.normalises = getattr(preprocessor, '_enable_normalize', hasattr(preprocessor, 'mean'))
        if self.normalises:
            mean = preprocessor.mean.detach().clone()
            std = preprocessor.std.detach().clone()
        self.register_buffer('mean', mean, persistent=False)
        self.register_buffer('std', std, persistent=False)
        self.divisor = padding_divisor(model)
        stride = max(getattr(getattr(model, 'backbone', None), 'out_strides', (32,)))
        # A pyramid made from one map has coarser levels than the backbone.
        scale = getattr(getattr(model, 'neck', None), 'coarsest_scale', 1)
        self.stride = int(stride / scale)

    def use_bands(self, arguments: Mapping[str, Any]) -> None:
        """Normalise in the graph what `LoadBands` with these arguments normalises.

        Raises:
            ExportError: the data preprocessor has norms, too.
        """
        if self.normalises and arguments.get('mean'):
            raise ExportError(
                'data_preprocessor.mean: expected None with LoadBands, which normalises, got'
                f' {self.mean.flatten().tolist()}. Set mean and std of LoadBands instead.'
            )
        if not self.normalises:
            self._use_norms(arguments)
        self.bands = {key: value for key, value in arguments.items() if key == 'bands'}
        # Data preprocessors exchange the first and the last of three channels.
        self.flip = len(self.mean) == 3 and takes_rgb(self.model.data_preprocessor)

    def _use_norms(self, arguments: Mapping[str, Any]) -> None:
        number = image_bands(self.model)
        for name in ('mean', 'std', 'bands'):
            number = len(arguments.get(name) or ()) or number
        mean, std = arguments.get('mean') or [0.0] * number, arguments.get('std') or [1.0] * number
        self.mean, self.std = torch.tensor(mean)[:, None, None], torch.tensor(std)[:, None, None]

    def value_range(self) -> tuple[Tensor, Tensor]:
        """Return the smallest and largest value of noise in each channel, `(C, 1, 1)` each."""
        if self.bands is None:
            return torch.zeros_like(self.mean), torch.full_like(self.mean, 255)
        return self.mean - 2 * self.std, self.mean + 2 * self.std

    def normalise(self, image: Tensor) -> Tensor:
        x = image.flip(1) if self.flip else image
        return (x - self.mean) / self.std

    def prepare(self, image: Tensor) -> Tensor:
        """Normalise an image, and pad it with zeros at the right and the bottom.

        The data preprocessor does the same.
        """
        return pad_to_multiple(self.normalise(image), (self.divisor, self.divisor))

    def translations(self) -> dict[Callable, Callable]:
        """Return the ONNX translations of the model's own operators."""
        return {}

    def errors(
        self, outputs: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Return the differences between two results as one array, relative to the largest value
        of each output. NaN is an error of its own.
        """
        parts = []
        for name, value in expected.items():
            largest = max(np.abs(value).max(), 1e-12)
            parts.append((np.abs(outputs[name] - value) / largest).ravel())
        return np.concatenate(parts)


class ExportedFeatures(ExportedModel):
    """Feature maps of the neck, `(B, C_i, H_i, W_i)` each; of the backbone if there is no neck."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        levels = len(model.backbone.out_indices)
        neck = getattr(model, 'neck', None)
        number = getattr(neck, 'num_outs', None) or levels
        self.outputs = tuple(f'map{level}' for level in range(number))
        if not hasattr(neck, 'coarsest_scale'):
            self.stride *= 2 ** max(0, number - levels)  # extra levels of the neck

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.model.extract_feat(self.prepare(image)))


def wrap(model: nn.Module, features: bool = False) -> ExportedModel:
    """Return the model to export; with `features`, only backbone and neck.

    Raises:
        ExportError: the model has no backbone, or its task has no export.
    """
    if features:
        if not hasattr(model, 'backbone'):
            raise ExportError(
                f'--features: expected a model with a backbone, got {type(model).__name__}.'
            )
        return ExportedFeatures(model)
    task = task_of_model(model)
    if task is None or not task.offers('export'):
        offered = ', '.join(name for name, task in tasks().items() if task.offers('export'))
        raise ExportError(
            f'model: expected one of {offered}, got {type(model).__name__}. --features exports'
            ' backbone and neck.'
        )
    return task.part('export').Exported(model)


def padding_divisor(model: nn.Module) -> int:
    """Return the number of which the data preprocessor makes height and width a multiple."""
    return max(getattr(model.data_preprocessor, 'pad_size_divisor', 1) or 1, 1)
