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
from mmflatten_lab.models.synthetic_tasks import NO_LABEL

PATCH = 4  # pixels of a token
SPLITS = {
    'train': ('train', slice(50000)),
    'choice': ('train', slice(-10000, None)),
    'val': ('val', slice(None)),
}
TASKS = ('local', 'far')


@DATASETS.register_module()
class GarmentCanvases(Dataset):
    """Square canvases of garments. The label of a token on a garment is a class of Fashion-MNIST;
    other tokens have -1.

    Args:
        split: 'train', 'choice', the 10,000 garments of the training file that 'train' leaves, or
            'val'.
        canvases: (garments on a side, factor by which the canvas is enlarged bilinearly, number of
            such canvases), such as `[(1, 1, 512), (8, 1, 512)]` for 49 and 3,136 tokens. Drawn anew
            from `seed` and their index.
        task: 'local', the class of the token's own garment; 'far', that of the one garment of the
            canvas that is red.
        folder: of the four files; None for the usual places.
        indices: only so many canvases of each kind.
    """

    def __init__(
        self,
        split: str,
        canvases: Sequence[tuple[int, int, int]],
        task: str = 'local',
        seed: int = 0,
        folder: str | None = None,
        indices: int | None = None,
    ) -> None:
        for name, value, known in (('split', split, SPLITS), ('task', task, TASKS)):
            if value not in known:
                raise ValueError(f'{name}: expected one of {", ".join(known)}, got {value!r}.')
        file, part = SPLITS[split]
        garments = load_garments(file, None if folder is None else Path(folder))
        self.images = garments.images[part]
        self.labels = garments.labels[part].astype(np.int64)
        self.task = task
        self.seed = seed
        self.canvases: list[tuple[int, int]] = []
        for side, factor, number in canvases:
            self.canvases += [(side, factor)] * min(number, indices or number)
        self.metainfo = dict(classes=tuple(map(str, range(10))))

    def __len__(self) -> int:
        return len(self.canvases)

    def __getitem__(self, index: int) -> dict[str, Any]:
        side, factor = self.canvases[index]
        rng = np.random.default_rng([self.seed, index])
        chosen = rng.integers(len(self.labels), size=side * side)
        cells = torch.from_numpy(self.images[chosen])[:, None].repeat(1, 3, 1, 1)
        labels = torch.from_numpy(self.labels[chosen])
        if self.task == 'far':
            red = int(rng.integers(side * side))
            cells[red, 1:] = 0
            labels = labels[red].repeat(side * side)
        image = cells.unflatten(0, (side, side)).permute(2, 0, 3, 1, 4).flatten(3, 4).flatten(1, 2)
        # A token is labelled if any of its pixels shows a garment.
        shown = F.max_pool2d(image.amax(0, keepdim=True).float(), PATCH) > 0
        classes = spread(labels.view(1, side, side), SIDE // PATCH)
        classes = torch.where(shown, classes, NO_LABEL)
        if factor > 1:
            image = F.interpolate(image[None], scale_factor=factor, mode='bilinear')[0]
            classes = spread(classes, factor)
        kind = str(classes.numel())
        if factor > 1:
            kind += '_resized'
        metainfo = dict(sample_idx=index, img_shape=tuple(image.shape[1:]), kind=kind)
        sample = DataSample(metainfo=metainfo)
        sample.set_field(classes.flatten(), 'cell_labels')
        return dict(inputs=image, data_samples=sample)


def spread(map_1HW: Tensor, factor: int) -> Tensor:
    return map_1HW.repeat_interleave(factor, 1).repeat_interleave(factor, 2)
