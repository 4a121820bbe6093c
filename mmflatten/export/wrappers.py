"""Models of every task with plain tensors in and out, the form in which they are exported."""
from __future__ import annotations

import torch
from torch import Tensor, nn

from mmflatten.building import takes_rgb
from mmflatten.models.layers import pad_to_multiple
from mmflatten.tasks import task_of_model, tasks


class ExportError(ValueError):
    """A model that cannot be exported in the way asked for."""


class ExportedModel(nn.Module):
    """What a graph computes: raw RGB images `(1, 3, H, W)`, float32 from 0 to 255, to a tuple of tensors.

    Normalisation and padding are part of the graph.

    Attributes:
        task: of the metadata.
        inputs: names of the inputs.
        outputs: names of the results.
        stride: that of the coarsest map.
        has_scores: True if the first output has a score for each class in its second dimension.
        needs_test_cfg: True if the config's `test_cfg` is needed to turn the outputs into predictions.
    """

    task = 'features'
    inputs: tuple[str, ...] = ('image',)
    outputs: tuple[str, ...]
    has_scores = needs_test_cfg = False

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        preprocessor = model.data_preprocessor
        self.flip = not takes_rgb(preprocessor)  # the network sees BGR
        normalises = getattr(preprocessor, '_enable_normalize', hasattr(preprocessor, 'mean'))
        for name, other in (('mean', 0.), ('std', 1.)):
            value = getattr(preprocessor, name).detach().clone() if normalises else torch.full((3, 1, 1), other)
            self.register_buffer(name, value, persistent=False)
        self.divisor = max(getattr(preprocessor, 'pad_size_divisor', 1) or 1, 1)
        strides = getattr(getattr(model, 'backbone', None), 'out_strides', (32,))
        self.stride = max(strides)

    def normalise(self, image: Tensor) -> Tensor:
        return ((image.flip(1) if self.flip else image) - self.mean) / self.std

    def prepare(self, image: Tensor) -> Tensor:
        """What the data preprocessor makes of an image; zeros are added at the right and the bottom."""
        return pad_to_multiple(self.normalise(image), (self.divisor, self.divisor))


class Features(ExportedModel):
    """The maps of the backbone, or of the neck where there is one: `(1, C_i, H_i, W_i)` each."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        neck, backbone = getattr(model, 'neck', None), model.backbone
        number = getattr(neck, 'num_outs', None) or len(backbone.out_indices)
        self.outputs = tuple(f'map{level}' for level in range(number))
        self.stride *= 2 ** max(0, number - len(backbone.out_indices))  # of the maps that the neck adds

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.model.extract_feat(self.prepare(image)))


class Backbone(ExportedModel):
    """The maps of the backbone, of an image as the data preprocessor hands it on: `(1, C_i, H_i, W_i)` each."""

    task = 'backbone'

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.outputs = tuple(f'map{level}' for level in range(len(model.backbone.out_indices)))

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.model.backbone(image))


def wrap(model: nn.Module, features: bool = False) -> ExportedModel:
    """Return the model as it is exported; with `features` the maps of backbone and neck alone.

    Raises:
        ExportError: the model cannot be exported.
    """
    if features:
        if not hasattr(model, 'backbone'):
            raise ExportError(f'--features: expected a model with a backbone, got {type(model).__name__}.')
        return Features(model)
    task = task_of_model(model)
    if task is None or not task.offers('export'):
        raise ExportError(f'model: expected one of {", ".join(name for name in tasks())}, got {type(model).__name__}.')
    return task.part('export').wrap(model)
