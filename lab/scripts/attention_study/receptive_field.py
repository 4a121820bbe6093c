"""Effective receptive field: the pixels that the centre of a layer's map depends on."""
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from attention_study.layer_maps import as_map, find_layer, input_gradients, recorded_calls
from torch import Tensor, nn


@dataclass(frozen=True)
class ReceptiveField:
    """Influence of each input pixel on one position of a map.

    Attributes:
        values: `(H, W)`, sum 1, mean over the number of `images`.
        center: `(x, y)` in input pixels, the centre of the position's cell.
        layer: name of the module; 'output' for the output of the model.
    """

    values: np.ndarray
    center: tuple[float, float]
    layer: str
    images: int

    def share(self, mass: float) -> float:
        """Return the smallest fraction of the input pixels that contains the fraction `mass` of the values."""
        total = np.cumsum(np.sort(self.values, axis=None)[::-1])
        return float(np.searchsorted(total, mass * total[-1]) + 1) / self.values.size

    @property
    def radius(self) -> float:
        """Mean distance of the values from the centre, in pixels."""
        y, x = np.indices(self.values.shape)
        return float((np.hypot(x - self.center[0], y - self.center[1]) * self.values).sum())

    def figures(self) -> dict[str, float]:
        """Return the fractions of pixels that contain 50 % and 95 % of the values, and the radius."""
        return dict(share_50=self.share(.5), share_95=self.share(.95), radius=self.radius)


def receptive_field(model: nn.Module, images: Iterable[Tensor], layer: str | int | None = -1) -> ReceptiveField:
    """Compute the effective receptive field of Luo et al. 2016 (Understanding the Effective Receptive Field).

    It is the absolute gradient of the channel sum at the central position `(H' // 2, W' // 2)` of the layer's map with
    respect to the input, summed over input channels and averaged over images. The map of a stage is that before any
    norm, because the channels after a `LayerNorm` without weights sum to a constant, whose gradient is zero.

    Args:
        model: a backbone, or a model with a backbone. Only the backbone runs.
        images: images of one size, `(3, H, W)`, normalised by the data preprocessor, or noise.
        layer: a stage or a module, as in `find_layer`. None means the (last) output of the model.

    Raises:
        ValueError: there are no images, they differ in size, or the layer is unknown or does not depend on them.
    """
    network = getattr(model, 'backbone', model)
    name, module = ('output', network) if layer is None else find_layer(model, layer)
    total, count = torch.zeros(()), 0
    with input_gradients(network):
        for image in images:
            gradient, size = _gradient(network, module, image)
            if count and gradient.shape != total.shape:
                sizes = ' and '.join('{} x {}'.format(*found.shape) for found in (gradient, total))
                raise ValueError(f'images: expected one size, got {sizes}. Resize them.')
            total, count = total + gradient, count + 1
    if not count:
        raise ValueError('images: expected at least one image, got none.')
    if not total.sum() > 0:
        raise ValueError(f'layer: the output does not depend on the images, got {name}.')
    y, x = ((side // 2 + .5) * pixels / side - .5 for side, pixels in zip(size, total.shape))
    return ReceptiveField((total / total.sum()).cpu().numpy(), (x, y), name, count)


def _gradient(network: nn.Module, layer: nn.Module, image_CHW: Tensor) -> tuple[Tensor, tuple[int, int]]:
    """Return the absolute gradient `(H, W)` in float64, and the shape of the layer's map."""
    batch = image_CHW[None].detach().clone().requires_grad_()
    with torch.enable_grad(), recorded_calls(layer) as calls:
        network(batch)
        if not calls:
            raise ValueError(f'layer: {type(network).__name__} does not call it, got {type(layer).__name__}.')
        output, hw = calls[-1]
        features = as_map(output[-1] if layer is network and isinstance(output, (tuple, list)) else output, hw, layer)
        height, width = features.shape[-2:]
        gradient, = torch.autograd.grad(features[0, :, height // 2, width // 2].sum(), batch)
    return gradient[0].abs().sum(0).double(), (height, width)
