"""Canvases of garments with a label for each token: larger by more garments, or by larger ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

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
TRAINED_SIDE = 2  # garments on a side of the canvases that 'kept' and 'padded' refer to
GROWTHS = ('more', 'kept', 'padded', 'copies')


@DATASETS.register_module()
class GarmentCanvases(Dataset):
    """Square canvases of garments. The label of a token on a garment is a class of Fashion-MNIST;
    other tokens have -1.

    Args:
        split: 'train', 'choice', the 10,000 garments of the training file that 'train' leaves, or
            'val'.
        canvases: (garments on a side, factor by which the canvas is enlarged bilinearly, number of
            such canvases), such as `[(1, 1, 512), (8, 1, 512)]` for 49 and 3,136 tokens. Drawn anew
            from `seed` and their index. A fourth item says how a canvas of more than 2 x 2 garments
            grows: 'more', the default, has one red garment among more; 'kept' has a quarter of them
            red, all of them copies of one; 'padded' has 2 x 2 garments anywhere on black; in
            'copies' all are copies of the red one. Only the far task has copies.
        task: 'local', the class of the token's own garment; 'far', that of the one garment of the
            canvas that is red.
        folder: of the four files; None for the usual places.
        indices: only so many canvases of each kind.
    """

    def __init__(
        self,
        split: str,
        canvases: Sequence[Sequence[int | str]],
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
        self.canvases: list[Canvas] = []
        for entry in canvases:
            canvas, number = read_canvas(entry)
            self.canvases += [canvas] * min(number, indices or number)
        self.metainfo = dict(classes=tuple(map(str, range(10))))

    def __len__(self) -> int:
        return len(self.canvases)

    def __getitem__(self, index: int) -> dict[str, Any]:
        canvas = self.canvases[index]
        rng = np.random.default_rng([self.seed, index])
        side = TRAINED_SIDE if canvas.growth == 'padded' else canvas.side
        chosen = rng.integers(len(self.labels), size=side * side)
        cells = torch.from_numpy(self.images[chosen])[:, None].repeat(1, 3, 1, 1)
        labels = torch.from_numpy(self.labels[chosen])
        if self.task == 'far':
            red = int(rng.integers(side * side))
            others = np.delete(np.arange(side * side), red)
            copied = rng.choice(others, canvas.copies(side), replace=False)
            cells[copied] = cells[red].clone()
            cells[[red, *copied], 1:] = 0
            labels = labels[red].repeat(side * side)
        image = cells.unflatten(0, (side, side)).permute(2, 0, 3, 1, 4).flatten(3, 4).flatten(1, 2)
        # A token is labelled if any of its pixels shows a garment.
        shown = F.max_pool2d(image.amax(0, keepdim=True).float(), PATCH) > 0
        classes = spread(labels.view(1, side, side), SIDE // PATCH)
        classes = torch.where(shown, classes, NO_LABEL)
        if canvas.growth == 'padded':
            place = rng.integers(canvas.side - side + 1, size=2)
            image = padded(image, canvas.side * SIDE, place * SIDE, 0)
            classes = padded(classes, canvas.side * SIDE // PATCH, place * SIDE // PATCH, NO_LABEL)
        if canvas.factor > 1:
            image = F.interpolate(image[None], scale_factor=canvas.factor, mode='bilinear')[0]
            classes = spread(classes, canvas.factor)
        kind = canvas.kind(classes.numel())
        metainfo = dict(sample_idx=index, img_shape=tuple(image.shape[1:]), kind=kind)
        sample = DataSample(metainfo=metainfo)
        sample.set_field(classes.flatten(), 'cell_labels')
        return dict(inputs=image, data_samples=sample)


class Canvas(NamedTuple):
    """Kind of a canvas: garments on a side, factor of the enlargement, and how it grows."""

    side: int
    factor: int
    growth: str = 'more'

    def copies(self, side: int) -> int:
        """Garments that are copies of the red one, beside it."""
        if self.growth == 'copies':
            return side * side - 1
        return side * side // TRAINED_SIDE**2 - 1 if self.growth == 'kept' else 0

    def kind(self, tokens: int) -> str:
        """Name in the metrics: `784`, `784_resized`, `784_kept`."""
        name = str(tokens)
        if self.growth != 'more':
            name += f'_{self.growth}'
        return f'{name}_resized' if self.factor > 1 else name


def read_canvas(entry: Sequence[int | str]) -> tuple[Canvas, int]:
    """Read an item of `canvases` as a kind of canvas and their number.

    Raises:
        ValueError: it has another length, another word, or a side that 'kept' and 'padded' do not
            know.
    """
    if len(entry) not in (3, 4):
        raise ValueError(
            f'canvases: expected (garments on a side, factor, number, growth), got {entry}. Write'
            ' three or four items.'
        )
    side, factor, number = map(int, entry[:3])
    growth = str(entry[3]) if len(entry) > 3 else 'more'
    if growth not in GROWTHS:
        raise ValueError(
            f'canvases: expected one of {", ".join(GROWTHS)}, got {growth!r}. Correct it.'
        )
    if growth != 'more' and side % TRAINED_SIDE:
        raise ValueError(
            f'canvases: expected a multiple of {TRAINED_SIDE} garments on a side for {growth!r},'
            f' got {side}. Correct it.'
        )
    return Canvas(side, factor, growth), number


def padded(map_CHW: Tensor, side: int, place: Sequence[int], value: int) -> Tensor:
    """Put a map on a square of one value, with its first corner at `place`."""
    top, left = map(int, place)
    height, width = map_CHW.shape[1:]
    square = map_CHW.new_full((len(map_CHW), side, side), value)
    square[:, top : top + height, left : left + width] = map_CHW
    return square


def spread(map_1HW: Tensor, factor: int) -> Tensor:
    return map_1HW.repeat_interleave(factor, 1).repeat_interleave(factor, 2)
