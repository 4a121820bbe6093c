"""Data preprocessor that normalises, pads and batches stereo pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from mmengine.model import BaseDataPreprocessor
from torch import Tensor

from mmflatten.registry import MODELS
from mmflatten.structures import StereoDataSample

IMAGENET_MEAN = (123.675, 116.28, 103.53)
IMAGENET_STD = (58.395, 57.12, 57.375)
SIDES = ('left', 'right')


def pad_top_right(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Zero-pad `(..., h, w)` at the top and on the right to `size` = (H, W). Disparities begin at
    the left edge.
    """
    return F.pad(x, (0, size[1] - x.shape[-1], size[0] - x.shape[-2], 0))


def crop_top_right(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Crop `(..., H, W)` to `size` at the top and on the right, the inverse of `pad_top_right`."""
    return x[..., x.shape[-2] - size[0] :, : size[1]]


@MODELS.register_module()
class StereoDataPreProcessor(BaseDataPreprocessor):
    """Normalise the images of stereo pairs and stack them into batches.

    Normalised images are zero-padded at the top and on the right until the height and width of the
    batch are multiples of `pad_divisor`. The ground truth is not padded: the model crops
    predictions or pads the ground truth according to `img_shape`.

    Args:
        mean: mean of the channels R, G, B, in the range 0 to 255, or of each band of the images.
        std: standard deviation of the same channels.
        pad_divisor: PSMNet's hourglasses halve multiples of 16 evenly.
        bgr_to_rgb: reverse the channels first, because mmcv reads images as BGR. Images of other
            than three bands are not reversed.
        non_blocking: as in MMEngine.
    """

    def __init__(
        self,
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
        pad_divisor: int = 16,
        bgr_to_rgb: bool = True,
        non_blocking: bool = False,
    ) -> None:
        super().__init__(non_blocking)
        if len(mean) != len(std) or min(std, default=0) <= 0:
            raise ValueError(
                f'mean, std: expected a number for each band and positive std, got {mean}, {std}.'
            )
        if pad_divisor < 1:
            raise ValueError(f'pad_divisor: expected a positive integer, got {pad_divisor}.')
        self.pad_divisor, self.bgr_to_rgb = pad_divisor, bgr_to_rgb
        self.register_buffer('mean', torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer('std', torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, data: dict, training: bool = False) -> dict:
        """Prepare a batch.

        Args:
            data: `inputs` = dict(left=..., right=...), each a list or stacked tensor of images (C,
                H, W) with values from 0 to 255; `data_samples` = list of `StereoDataSample` or
                None.

        Returns:
            `inputs` = dict(left=(B, C, H, W), right=(B, C, H, W)), and `data_samples` with
            `img_shape` and `batch_input_shape`.

        Raises:
            ValueError: the left or right images are missing, or the images of a pair differ in
                size.
        """
        data = self.cast_data(data)
        samples = data.get('data_samples')
        images = _sides(data['inputs'])
        sizes = _sizes(images, samples)
        height, width = (self._padded(max(lengths)) for lengths in zip(*sizes))
        shape = (height, width)
        for sample, size in zip(samples or (), sizes):
            sample.set_metainfo(dict(img_shape=size, batch_input_shape=shape))
        batch = {}
        for side in SIDES:
            padded = [pad_top_right(self._normalise(image), shape) for image in images[side]]
            batch[side] = torch.stack(padded)
        return dict(inputs=batch, data_samples=samples)

    def _padded(self, length: int) -> int:
        """Round a length up to a multiple of `pad_divisor`."""
        return -(-length // self.pad_divisor) * self.pad_divisor

    def _normalise(self, image: Tensor) -> Tensor:
        if self.bgr_to_rgb and len(self.mean) == 3:
            image = image.flip(0)
        if len(image) != len(self.mean):
            raise ValueError(
                f'images: expected {len(self.mean)} bands, as in data_preprocessor.mean, got'
                f' {len(image)}. Read the images with their bands, or give mean and std of'
                f' {len(image)}.'
            )
        return (image.float() - self.mean) / self.std


def _sides(inputs: Any) -> dict[str, Sequence[Tensor]]:
    received: object = type(inputs).__name__
    missing = list(SIDES)
    if isinstance(inputs, Mapping):
        received = list(inputs)
        missing = [side for side in SIDES if inputs.get(side) is None]
    if missing:
        raise ValueError(
            f'inputs: expected dict(left=[...], right=[...]), got {received} without '
            f'{" and ".join(map(repr, missing))}.'
        )
    if len(inputs['left']) != len(inputs['right']) or not len(inputs['left']):
        raise ValueError(
            'inputs: expected as many left as right images and at least one, got'
            f' {len(inputs["left"])} left and {len(inputs["right"])} right.'
        )
    return {side: inputs[side] for side in SIDES}


def _sizes(
    images: dict[str, Sequence[Tensor]], samples: list[StereoDataSample] | None
) -> list[tuple[int, int]]:
    """Return (H, W) of each pair."""
    sizes = []
    for index, pair in enumerate(zip(images['left'], images['right'])):
        shapes = [tuple(image.shape) for image in pair]
        if shapes[0] != shapes[1] or len(shapes[0]) != 3:
            raise ValueError(
                f'images {_names(index, samples)}: expected the same shape (C, H, W), got'
                f' {shapes[0]} and {shapes[1]}.'
            )
        sizes.append(shapes[0][1:])
    return sizes


def _names(index: int, samples: list[StereoDataSample] | None) -> str:
    paths = []
    if samples:
        paths = [samples[index].get(f'{side}_path') for side in SIDES]
    if paths and all(paths):
        return ' and '.join(map(str, paths))
    return f'left and right of pair {index} in the batch'
