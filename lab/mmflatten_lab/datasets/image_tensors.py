"""Small images that are held in memory as tensors, for trainings of nano models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from mmpretrain.structures import DataSample
from torch import Tensor
from torch.utils.data import Dataset

from mmflatten.registry import DATASETS
from mmflatten_lab.garments.fashion import GARMENT_CLASSES, load_garments


class ImageTensors(Dataset):
    """Labelled images in memory, optionally shifted and flipped at random. Needs no worker
    processes.

    Args:
        images: `(n, 3 or 1, H, W)`, uint8. One channel is repeated.
        labels: `(n,)`, integers.
        classes: names of the classes.
        indices: as in MMEngine's data sets: the first images, or with a negative number the last
            ones; None for all.
        padding: largest random shift along each axis, in pixels; zeros fill what becomes free.
        flip: probability of a horizontal flip.
    """

    def __init__(
        self,
        images: Tensor,
        labels: Tensor,
        classes: Sequence[str],
        indices: int | None = None,
        padding: int = 0,
        flip: float = 0.0,
    ) -> None:
        if indices is not None and not 0 < abs(indices) <= len(images):
            raise ValueError(
                f'indices: expected a number of at most {len(images)} images, got {indices}.'
            )
        if indices is None:
            part = slice(None)
        elif indices > 0:
            part = slice(indices)
        else:
            part = slice(indices, None)
        self.images = images[part]
        self.labels = labels[part].tolist()
        self.padding = padding
        self.flip = flip
        self.metainfo = dict(classes=tuple(classes))
        if padding:
            self.images = F.pad(self.images, (padding,) * 4)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, Any]:
        image = self.images[index]
        if self.padding:
            top, left = torch.randint(2 * self.padding + 1, (2,)).tolist()
            height = image.shape[1] - 2 * self.padding
            width = image.shape[2] - 2 * self.padding
            image = image[:, top : top + height, left : left + width]
        if self.flip and torch.rand(()) < self.flip:
            image = image.flip(-1)
        shape = tuple(image.shape[1:])
        sample = DataSample(metainfo=dict(sample_idx=index, img_shape=shape, ori_shape=shape))
        sample.set_gt_label(self.labels[index])
        return dict(inputs=image.expand(3, -1, -1), data_samples=sample)


@DATASETS.register_module()
class FashionTensors(ImageTensors):
    """Fashion-MNIST from its four files.

    Args:
        split: 'train', 60,000 images, or 'val', the 10,000 of the test file.
        folder: of the files; None for the usual places.
        size: side of the images, resized bilinearly from 28 pixels.
        kwargs: `indices`, `padding` and `flip` of `ImageTensors`.
    """

    def __init__(
        self, split: str, folder: str | None = None, size: int = 28, **kwargs: Any
    ) -> None:
        if split not in ('train', 'val'):
            raise ValueError(f"split: expected 'train' or 'val', got {split!r}.")
        garments = load_garments(split, None if folder is None else Path(folder))
        images = torch.from_numpy(garments.images.copy())[:, None]
        if size != images.shape[-1]:
            images = F.interpolate(images, size=(size, size), mode='bilinear', antialias=True)
        super().__init__(
            images, torch.from_numpy(garments.labels.copy()), GARMENT_CLASSES, **kwargs
        )
