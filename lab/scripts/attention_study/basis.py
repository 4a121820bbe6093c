"""Basis masks of a factorized attention, drawn over the image that they were computed from, as in
Figure 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.explain.drawings import draw_attention, panel_grid
from mmflatten.explain.maps import network_picture
from mmflatten.models.attention import FactorizedAttention
from mmflatten.predict.predictor import Image, Predictor

DEFAULT = 'neck.attentions.1'  # the module in the paper's figure


@dataclass(frozen=True)
class BasisMasks:
    """Masks of one image."""

    image: np.ndarray  # RGB (H, W, 3), 0 to 255, as the model sees it
    masks: np.ndarray  # (K, H, W) on the same pixels, heads in sequence
    coefficients: np.ndarray  # (K,), mean coefficient of each mask over the locations


def find_attention(
    model: torch.nn.Module, name: str | None = None
) -> tuple[str, FactorizedAttention]:
    """Find a factorized attention by name; by default the one of the finest FPN level, or else the
    first.

    Raises:
        ValueError: the model has none of this name that works on maps.
    """
    modules = {
        key: module
        for key, module in model.named_modules()
        if isinstance(module, FactorizedAttention) and module.ndim == 2
    }
    name = name or next((key for key in (DEFAULT, *modules) if key in modules), None)
    if name not in modules:
        raise ValueError(
            f'--module: expected FactorizedAttention on maps ({", ".join(modules)}), got {name}.'
        )
    return name, modules[name]


def basis_of_image(
    predictor: Predictor, attention: FactorizedAttention, image: Image
) -> BasisMasks:
    """Predict on an image and record the masks that `attention`, a module of the model, computes
    first.

    Raises:
        PredictionError: the image cannot be read or used.
        ValueError: predictions do not run `attention`.
    """
    inputs: list[Tensor] = []
    with attention.register_forward_pre_hook(lambda module, args: inputs.append(args[0][:1])):
        picture = network_picture(predictor, image)
    if not inputs:
        raise ValueError('--module: predictions do not run this attention. Choose another one.')
    with torch.no_grad():
        coefficients, basis = attention.factors(inputs[0])
    masks = F.interpolate(basis.flatten(1, 2).float(), picture.shape[:2], mode='bilinear')[0]
    return BasisMasks(
        picture, masks.cpu().numpy(), coefficients.flatten(3).mean(-1).flatten().cpu().numpy()
    )


def most_used(results: Sequence[BasisMasks], number: int) -> list[int]:
    """Return the masks with the largest absolute coefficients over all images, in decreasing
    order.
    """
    sizes = np.mean([np.abs(result.coefficients) for result in results], axis=0)
    return [int(index) for index in np.argsort(-sizes, kind='stable')[:number]]


def draw_basis_masks(
    results: Sequence[BasisMasks], indices: Sequence[int], path: str | Path
) -> None:
    """Draw a row for each image: the image, then the chosen masks over it, transparent where they
    are small.

    Each mask is scaled to the 99th percentile of its absolute values, because a few locations can
    have most of the weight of a softmax. Masks with negative values ('dot') are red where positive
    and blue where negative.

    Args:
        results: one entry per image, from the same attention.
        indices: masks to draw, from 0.
        path: PNG to write.

    Raises:
        ValueError: an index is out of range.
    """
    number, columns = len(results[0].masks), len(indices) + 1
    if not all(0 <= index < number for index in indices):
        raise ValueError(f'--masks: expected numbers from 0 to {number - 1}, got {list(indices)}.')
    figure, panels = panel_grid(
        len(results) * columns, columns, 2.4, results[0].image.shape, 'Basis masks'
    )
    for result, (first, *others) in zip(results, np.reshape(panels, (-1, columns))):
        draw_attention(first, result.image, None, None)
        for index, panel in zip(indices, others):
            draw_attention(panel, result.image, result.masks[index], None)
            panel.set_title(f'mask {index}, {result.coefficients[index]:.3f}', fontsize='small')
    figure.savefig(path, dpi=100)
