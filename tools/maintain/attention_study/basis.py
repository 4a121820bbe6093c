"""Basis masks of a factorized attention over the image that they were computed from, as Figure 7 of the paper."""
from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from mmcv.transforms import Compose
from mmengine.dataset import pseudo_collate
from mmengine.model import BaseModel
from torch import Tensor

from mmflatten.models.attention import FactorizedAttention

PREFERRED = 'neck.attentions.1'  # the module that the paper draws


@dataclass(frozen=True)
class BasisMasks:
    """The masks of one image."""

    image: np.ndarray  # RGB (H, W, 3), 0 to 255, as the model saw it
    masks: np.ndarray  # (K, H, W) on the same pixels; all heads one after the other
    shares: np.ndarray  # (K,), mean coefficient of each mask over the locations: how much it is used


def find_attention(model: torch.nn.Module, name: str | None = None) -> tuple[str, FactorizedAttention]:
    """The factorized attention of that name; by default that of the finest FPN level, or else the first.

    Raises:
        ValueError: the model has none, or none of this name.
    """
    found = {key: module for key, module in model.named_modules() if isinstance(module, FactorizedAttention)}
    if not found:
        raise ValueError(f'the model ({type(model).__name__}) has no FactorizedAttention; name a config that has '
                         'one, such as configs/factorized/mask-rcnn_r50_fa-fpn-all_fpn_32xb2-24e_coco.py')
    if name is None:
        name = PREFERRED if PREFERRED in found else next(iter(found))
    if name not in found:
        raise ValueError(f'module ({name}) is no FactorizedAttention of the model; there are {", ".join(found)}')
    if found[name].ndim != 2:
        raise ValueError(f'module ({name}) works on volumes (ndim=3), which cannot be drawn')
    return name, found[name]


def basis_of_image(model: BaseModel, attention: FactorizedAttention, pipeline: Sequence[dict],
                   image: str | Path) -> BasisMasks:
    """Run a model of OpenMMLab on an image and take the masks that `attention` computes on the way.

    Args:
        model: with `extract_feat`, on the CPU or a GPU.
        attention: one of its modules.
        pipeline: the config's test pipeline; steps that load annotations are left out.
        image: an image file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is no image; the model has no `extract_feat`, or it does not reach `attention`.
    """
    if not Path(image).is_file():
        raise FileNotFoundError(f'image {image} does not exist; check the path')
    if cv2.imread(os.fsencode(image)) is None:
        raise ValueError(f'image {image} cannot be decoded; name another file')
    if not hasattr(model, 'extract_feat'):
        raise ValueError(f'the model ({type(model).__name__}) does not compute features of single images '
                         '(extract_feat); basis masks are drawn for classifiers, detectors and segmentors')
    steps = [step for step in pipeline if 'Annotations' not in step['type']]
    packed = Compose(steps)(dict(img_path=str(image), img_id=0))
    batch = model.data_preprocessor(pseudo_collate([packed]), False)
    inputs: list[Tensor] = []
    hook = attention.register_forward_pre_hook(lambda module, args: inputs.append(args[0]))
    try:
        with torch.no_grad():
            model.eval().extract_feat(batch['inputs'])
            if not inputs:
                raise ValueError('the features of the model are computed without this attention; choose another one')
            coefficients, basis = attention.factors(inputs[0])
    finally:
        hook.remove()
    pixels = packed['inputs']
    masks = F.interpolate(basis.flatten(1, 2).float(), batch['inputs'].shape[-2:], mode='bilinear')
    # The model pads the image at its right and lower edges.
    masks = masks[0, :, :pixels.shape[-2], :pixels.shape[-1]]
    return BasisMasks(pixels.flip(0).permute(1, 2, 0).numpy(), masks.cpu().numpy(),
                      coefficients.flatten(3).mean(-1).flatten().cpu().numpy())


def most_used(results: Sequence[BasisMasks], number: int) -> list[int]:
    """The masks whose coefficients are largest in size over all images, the most used first."""
    shares = np.mean([np.abs(result.shares) for result in results], axis=0)
    return [int(index) for index in np.argsort(-shares, kind='stable')[:number]]


def draw_basis_masks(results: Sequence[BasisMasks], indices: Sequence[int], path: str | Path) -> None:
    """Draw a row for each image: the image, then the chosen masks over it, transparent where they are small.

    Each mask is scaled to the 99th percentile of its size, since few locations can hold most of a softmax. Masks that
    take both signs ('dot') are red where positive and blue where negative.

    Args:
        results: one entry per image, from the same attention.
        indices: the masks to draw, from 0.
        path: PNG to write.

    Raises:
        ValueError: an index that is not there.
    """
    from matplotlib.figure import Figure

    number = len(results[0].masks)
    if not indices or not all(0 <= index < number for index in indices):
        raise ValueError(f'masks ({list(indices)}) must be numbers from 0 to {number - 1}')
    height, width = results[0].image.shape[:2]
    columns, rows = len(indices) + 1, len(results)
    figure = Figure(figsize=(2.4 * columns, (2.4 * height / width + .3) * rows), layout='constrained')
    for result, axes in zip(results, figure.subplots(rows, columns, squeeze=False)):
        grey = result.image.mean(-1)
        axes[0].imshow(result.image)
        for index, panel in zip(indices, axes[1:]):
            mask = result.masks[index]
            signed, top = mask.min() < 0, max(np.percentile(np.abs(mask), 99), np.finfo(mask.dtype).tiny)
            panel.imshow(grey, cmap='gray', vmin=0, vmax=255)
            panel.imshow(mask, cmap='bwr' if signed else 'autumn', vmin=-top if signed else 0, vmax=top,
                         alpha=.85 * np.clip(np.abs(mask) / top, 0, 1))
            panel.set_title(f'mask {index}, {result.shares[index]:.3f}', fontsize='small')
        for panel in axes:
            panel.axis('off')
    figure.savefig(path, dpi=100)
