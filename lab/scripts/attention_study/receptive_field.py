"""Effective receptive field: the pixels that the centre of a layer's map depends on."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from attention_study.layer_maps import map_of_block, stages
from torch import Tensor, nn


@dataclass(frozen=True)
class ReceptiveField:
    """Influence of each input pixel on one position of a map.

    Attributes:
        values: `(H, W)`, sum 1, mean over the images.
        center: `(x, y)` in input pixels, the centre of the position's cell.
    """

    values: np.ndarray
    center: tuple[float, float]

    def share(self, mass: float) -> float:
        """Return the smallest fraction of the input pixels that contains the fraction `mass` of the
        values.
        """
        total = np.cumsum(np.sort(self.values, axis=None)[::-1])
        return float(np.searchsorted(total, mass * total[-1]) + 1) / self.values.size

    @property
    def radius(self) -> float:
        """Mean distance of the values from the centre, in pixels."""
        y, x = np.indices(self.values.shape)
        return float((np.hypot(x - self.center[0], y - self.center[1]) * self.values).sum())

    def figures(self) -> dict[str, float]:
        """Return the fractions of pixels that contain 50 % and 95 % of the values, and the
        radius.
        """
        return dict(share_50=self.share(0.5), share_95=self.share(0.95), radius=self.radius)


def receptive_field(model: nn.Module, images: Iterable[Tensor], stage: int = -1) -> ReceptiveField:
    """Compute the effective receptive field of Luo et al. 2016 (Understanding the Effective
    Receptive Field).

    It is the absolute gradient of the channel sum at the central position `(H' // 2, W' // 2)` of
    the stage's map with respect to the input, summed over input channels and averaged over images.
    The map of a stage is that before any norm, because the channels after a `LayerNorm` without
    weights sum to a constant, whose gradient is zero.

    Args:
        model: a backbone, or a model with a backbone. Only the backbone runs. It is left in
            evaluation mode, without gradients of its weights, and without checkpointing, which
            would run blocks twice.
        images: images of one size, `(3, H, W)`, normalised by the data preprocessor, or noise.
        stage: number of a stage (-1 is the last one) as in `stages`.

    Raises:
        ValueError: the images differ in size, or the stage is unknown.
    """
    backbone, names = getattr(model, 'backbone', model).eval().requires_grad_(False), stages(model)
    if not -len(names) <= stage < len(names):
        known = (
            f'0 to {len(names) - 1}'
            if names
            else f'none, because the stages of {type(model).__name__} are unknown'
        )
        raise ValueError(f'--stage: expected {known}, got {stage}.')
    for module in backbone.modules():
        if hasattr(module, 'with_cp'):
            module.with_cp = False
    gradients, maps = zip(
        *[_gradient(backbone, model.get_submodule(names[stage]), image) for image in images]
    )
    if len(sizes := {'{} x {}'.format(*gradient.shape) for gradient in gradients}) > 1:
        raise ValueError(
            f'images: expected one size, got {" and ".join(sorted(sizes))}. Resize them.'
        )
    total = sum(gradients)
    y, x = ((side // 2 + 0.5) * pixels / side - 0.5 for side, pixels in zip(maps[0], total.shape))
    return ReceptiveField((total / total.sum()).cpu().numpy(), (x, y))


def _gradient(
    backbone: nn.Module, block: nn.Module, image_CHW: Tensor
) -> tuple[Tensor, tuple[int, int]]:
    """Return the absolute gradient `(H, W)` in float64, and the shape of the block's map."""
    batch = image_CHW[None].detach().clone().requires_grad_()
    features = map_of_block(backbone, block, batch)
    height, width = features.shape[-2:]
    (gradient,) = torch.autograd.grad(features[0, :, height // 2, width // 2].sum(), batch)
    return gradient[0].abs().sum(0).double(), (height, width)
