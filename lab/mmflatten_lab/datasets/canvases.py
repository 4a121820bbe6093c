"""Canvases of garments with a label for each token: larger by more garments, or by larger ones."""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from mmpretrain.structures import DataSample
from torch import Tensor
from torch.utils.data import Dataset

from mmflatten.registry import DATASETS
from mmflatten_lab.garments.fashion import SIDE, load_garments

NO_LABEL = -1
PATCH = 4  # pixels of a token
TASKS = ('local', 'far')


@DATASETS.register_module()
class GarmentCanvases(Dataset):
    """Square canvases of garments. The label of a token on a garment is a class of Fashion-MNIST; other tokens have -1.

    Args:
        split: 'train', of whose garments the last 10,000 are left for choices, or 'val'.
        number: number of canvases of each size. They are drawn anew from `seed` and their index.
        sides: garments on a side of a canvas, such as `(1, 2, 4, 8)` for 49, 196, 784 and 3,136 tokens.
        task: 'local', the class of the token's own garment; 'far', that of the one garment of the canvas that is red.
        enlarge: whole factor by which all canvases are enlarged bilinearly.
        folder: of the four files; None for the usual places.
    """

    def __init__(self, split: str, number: int, sides: Sequence[int] = (2,), task: str = 'local', enlarge: int = 1,
                 seed: int = 0, folder: str | None = None, indices: int | None = None) -> None:
        for name, value, known in (('split', split, ('train', 'val')), ('task', task, TASKS)):
            if value not in known:
                raise ValueError(f'{name}: expected one of {", ".join(known)}, got {value!r}.')
        garments = load_garments(split, None if folder is None else Path(folder))
        kept = len(garments.labels) * 5 // 6 if split == 'train' else len(garments.labels)
        self.images, self.labels = garments.images[:kept], garments.labels[:kept]
        self.task, self.enlarge, self.seed = task, enlarge, seed
        self.sides = [side for side in sides for _ in range(min(number, indices or number))]
        self.metainfo = dict(classes=tuple(map(str, range(10))))

    def __len__(self) -> int:
        return len(self.sides)

    def __getitem__(self, index: int) -> dict[str, Any]:
        side = self.sides[index]
        rng = np.random.default_rng([self.seed, index])
        chosen = rng.integers(len(self.labels), size=side * side)
        cells = torch.from_numpy(self.images[chosen])[:, None].repeat(1, 3, 1, 1)
        labels = torch.from_numpy(self.labels[chosen].astype(np.int64))
        if self.task == 'far':
            marked = int(rng.integers(side * side))
            cells[marked, 1:] = 0
            labels = labels[marked].repeat(side * side)
        image, classes = self._joined(cells, side), labels.view(1, side, side)
        classes = classes.repeat_interleave(SIDE // PATCH, 1).repeat_interleave(SIDE // PATCH, 2)
        seen = F.max_pool2d(image.amax(0, keepdim=True).float(), PATCH) > 0
        classes = torch.where(seen, classes, NO_LABEL)
        if self.enlarge > 1:
            image = F.interpolate(image[None], scale_factor=self.enlarge, mode='bilinear')[0]
            classes = classes.repeat_interleave(self.enlarge, 1).repeat_interleave(self.enlarge, 2)
        sample = DataSample(metainfo=dict(sample_idx=index, img_shape=tuple(image.shape[1:])))
        sample.set_field(classes.flatten(), 'cell_labels')
        return dict(inputs=image, data_samples=sample)

    @staticmethod
    def _joined(cells: Tensor, side: int) -> Tensor:
        """`(side * side, 3, h, h) -> (3, side * h, side * h)`."""
        return cells.unflatten(0, (side, side)).permute(2, 0, 3, 1, 4).flatten(3, 4).flatten(1, 2)
