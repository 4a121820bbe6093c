"""Which pixels the middle of a layer's map depends on: the effective receptive field."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from mmflatten.explain.layer_maps import LayerMap, find_layer, input_gradients
from mmflatten.models.layers import map_shape


@dataclass(frozen=True)
class ReceptiveField:
    """How strongly each pixel of the input acts on one position of a map.

    Attributes:
        values: `(H, W)`, sum 1.
        center: `(x, y)` in pixels of the input, the middle of the position's cell.
        layer: name of the module; 'output' for the model's own.
        images: how many the values are a mean of.
    """

    values: np.ndarray
    center: tuple[float, float]
    layer: str
    images: int

    def share(self, held: float) -> float:
        """The smallest share of the input's pixels that together hold this share of the values, 0 to 1."""
        total = np.cumsum(np.sort(self.values, axis=None)[::-1])
        return float(np.searchsorted(total, held * total[-1]) + 1) / self.values.size

    @property
    def radius(self) -> float:
        """Mean distance of the values from the centre, in pixels."""
        y, x = np.indices(self.values.shape)
        return float((np.hypot(x - self.center[0], y - self.center[1]) * self.values).sum())

    def figures(self) -> dict[str, float]:
        """What is reported: the shares that hold 50 and 95 %, and the radius."""
        return dict(share_50=self.share(.5), share_95=self.share(.95), radius=self.radius)


def receptive_field(model: nn.Module, images: Iterable[Tensor], layer: str | int | None = -1) -> ReceptiveField:
    """The effective receptive field of Luo et al. 2016 (Understanding the Effective Receptive Field).

    It is the gradient of the sum over the channels, at the central position `(H' // 2, W' // 2)` of the layer's map, by
    the input: its size, summed over the channels of the input and averaged over the images.

    The map is that of the stage's last block, before any norm: the channels behind a `LayerNorm` without weights sum to
    a constant, whose gradient is zero.

    Args:
        model: a backbone, or a model with one; alone it is called with an image.
        images: of one size, `(3, H, W)`, as the data preprocessor hands them on; random ones do too.
        layer: a stage or a module, as in `find_layer`; None for the model's own output, the last where it has several.

    Raises:
        ValueError: there are no images, they differ in size, or the layer is none or does not depend on them.
    """
    network = getattr(model, 'backbone', model)
    name, module = ('output', network) if layer is None else find_layer(model, layer)
    total, size, count = None, (0, 0), 0
    with input_gradients(network):
        for image in images:
            gradient, size = _gradient(network, module, image)
            if total is not None and gradient.shape != total.shape:
                raise ValueError(f'images of {tuple(gradient.shape)} and {tuple(total.shape)} pixels have no mean; '
                                 'bring them to one size')
            total, count = gradient if total is None else total + gradient, count + 1
    if total is None or not total.sum() > 0:
        raise ValueError('images are empty' if total is None else f'layer ({name}) does not depend on the images')
    y, x = ((side // 2 + .5) * pixels / side - .5 for side, pixels in zip(size, total.shape))
    return ReceptiveField((total / total.sum()).cpu().numpy(), (x, y), name, count)


def _gradient(network: nn.Module, layer: nn.Module, image_CHW: Tensor) -> tuple[Tensor, tuple[int, int]]:
    """Sizes of the gradient `(H, W)` in float64, and the shape of the layer's map."""
    batch = image_CHW[None].detach().clone().requires_grad_()
    with torch.enable_grad(), LayerMap(network, layer) as watched:
        outputs = network(batch)
        if watched.output is None:
            raise ValueError(f'the layer ({type(layer).__name__}) is not reached by {type(network).__name__}')
        several = layer is network and isinstance(outputs, (tuple, list))
        found = watched.map(outputs[-1] if several else watched.output)
        height, width = map_shape(found)
        gradient, = torch.autograd.grad(found[0, :, height // 2, width // 2].sum(), batch)
    return gradient[0].abs().sum(0).double(), (height, width)
