"""Synthetic tasks that test one ability of a token mixer each, on grids of digits generated from a
seed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from mmpretrain.structures import DataSample
from scipy import ndimage
from torch import Tensor
from torch.utils.data import Dataset

from mmflatten.datasets.scenes.digits import load_glyphs
from mmflatten.registry import DATASETS

CELL = 8  # pixels on a side
NUM_SYMBOLS = 64
NUM_VALUES = 16
NUM_COUNTS = 8
NUM_LENGTHS = 4
NO_LABEL = -1
OFFSETS = np.array([(-2, -2), (-2, 0), (-2, 2), (0, -2), (0, 2), (2, -2), (2, 0), (2, 2)])
SPLITS = {'train': 0, 'val': 1, 'test': 2}
Cells = tuple[np.ndarray, np.ndarray]  # symbols (n, cells, 3), 0 for none, and labels (n, cells)


def recall(rng: np.random.Generator, number: int, size: int, pairs: int) -> Cells:
    """Cells with a key and a value, and cells with only a key, whose value is the label."""
    cells = size * size
    keys = _distinct(rng, number, NUM_SYMBOLS, pairs)
    values = rng.integers(NUM_VALUES, size=(number, pairs))
    asked = rng.integers(pairs, size=(number, cells - pairs))
    grid, labels = _empty(number, cells)
    grid[:, :pairs, 0] = keys + 1
    grid[:, :pairs, 1] = values + 1
    grid[:, pairs:, 0] = np.take_along_axis(keys, asked, 1) + 1
    labels[:, pairs:] = np.take_along_axis(values, asked, 1)
    return _mixed(rng, grid, labels)


def match(rng: np.random.Generator, number: int, size: int) -> Cells:
    """For cells with a mark: is the same symbol in a cell without a mark? True for half of them."""
    cells = size * size
    half = cells // 2
    quarter = cells // 4
    symbols = _distinct(rng, number, NUM_SYMBOLS, half + quarter) + 1
    grid, labels = _empty(number, cells)
    grid[:, :half, 0] = symbols[:, :half]
    grid[:, :half, 2] = 1
    # The second quarter of the symbols is in both halves.
    grid[:, half:, 0] = symbols[:, quarter : quarter + cells - half]
    labels[:, :half] = np.arange(half) >= quarter
    return _mixed(rng, grid, labels)


def count(rng: np.random.Generator, number: int, size: int, symbols: int = 16) -> Cells:
    """For each cell: the number of cells with the same symbol, up to eight. The symbols differ in
    frequency.
    """
    cells = size * size
    shares = rng.dirichlet(np.ones(symbols), number).cumsum(1)
    kinds = (rng.random((number, cells, 1)) > shares[:, None, :-1]).sum(-1)
    counts = (kinds[:, :, None] == np.arange(symbols)).sum(1)
    labels = np.minimum(np.take_along_axis(counts, kinds, 1), NUM_COUNTS) - 1
    return _in_channel(kinds, 0), labels.astype(np.int16)


def neighbour(rng: np.random.Generator, number: int, size: int) -> Cells:
    """For each cell: the value in the cell to the right."""
    values = rng.integers(NUM_VALUES, size=(number, size, size)).astype(np.int16)
    labels = np.full_like(values, NO_LABEL)
    labels[..., :-1] = values[..., 1:]
    return _in_channel(values.reshape(number, -1), 1), labels.reshape(number, -1)


def offset(rng: np.random.Generator, number: int, size: int) -> Cells:
    """For each cell: the value in the cell that its pointer selects, two cells away."""
    values = rng.integers(NUM_VALUES, size=(number, size * size)).astype(np.int16)
    place = np.stack(np.meshgrid(range(size), range(size), indexing='ij'), -1).reshape(-1, 1, 2)
    targets = place + OFFSETS
    valid = ((targets >= 0) & (targets < size)).all(-1)
    score = np.where(valid, rng.random((number, *valid.shape)), -1)
    pointer = score.argmax(-1)
    target = (targets[..., 0] * size + targets[..., 1])[np.arange(size * size), pointer]
    has = valid.any(1)
    labels = np.where(has, np.take_along_axis(values, np.where(has, target, 0), 1), NO_LABEL)
    grid = _in_channel(values, 1)
    grid[..., 2] = np.where(has, pointer + 1, 0)
    return grid, labels.astype(np.int16)


def path(rng: np.random.Generator, number: int, size: int, density: float = 0.58) -> Cells:
    """For cells with a symbol: are they connected with the mark through cells with symbols that
    share a side?
    """
    filled = rng.random((number, size, size)) < density
    mark = np.where(filled.reshape(number, -1), rng.random((number, size * size)), -1).argmax(1)
    labels = np.full((number, size * size), NO_LABEL, np.int16)
    for index, image in enumerate(filled):
        parts = ndimage.label(image)[0].reshape(-1)
        labels[index] = np.where(parts > 0, parts == parts[mark[index]], NO_LABEL)
    labels[np.arange(number), mark] = NO_LABEL
    grid = _in_channel(np.zeros_like(labels), 0)
    grid[~filled.reshape(number, -1)] = 0
    grid[np.arange(number), mark, 2] = 1
    return grid, labels


def distinguish(rng: np.random.Generator, number: int, size: int) -> Cells:
    """For half of the cells, which show one symbol: its brightness, one of four. The other cells
    differ.
    """
    cells = size * size
    half = cells // 2
    levels = rng.integers(NUM_LENGTHS, size=(number, half)).astype(np.int16)
    grid, labels = _empty(number, cells)
    grid[:, :half, 0] = rng.integers(1, NUM_SYMBOLS + 1, size=(number, 1)) + NUM_SYMBOLS * levels
    grid[:, half:, 0] = rng.integers(1, NUM_SYMBOLS + 1, size=(number, cells - half))
    grid[:, half:, 1] = rng.integers(1, NUM_VALUES + 1, size=(number, cells - half))
    labels[:, :half] = levels
    return _mixed(rng, grid, labels)


TASKS: dict[str, Callable[..., Cells]] = dict(
    recall=recall,
    match=match,
    count=count,
    neighbour=neighbour,
    offset=offset,
    path=path,
    distinguish=distinguish,
)


def _empty(number: int, cells: int) -> Cells:
    """Grids without symbols and labels."""
    grid = np.zeros((number, cells, 3), np.int16)
    labels = np.full((number, cells), NO_LABEL, np.int16)
    return grid, labels


def _distinct(rng: np.random.Generator, number: int, symbols: int, chosen: int) -> np.ndarray:
    """Different symbols of each image, `(number, chosen)`."""
    return rng.random((number, symbols)).argsort(1)[:, :chosen]


def _mixed(rng: np.random.Generator, grid: np.ndarray, labels: np.ndarray) -> Cells:
    """Shuffle the cells of each image."""
    order = rng.random(labels.shape).argsort(1)
    mixed_grid = np.take_along_axis(grid, order[..., None], 1)
    return mixed_grid, np.take_along_axis(labels, order, 1)


def _in_channel(symbols: np.ndarray, channel: int) -> np.ndarray:
    """A grid with these symbols in one of its three channels."""
    grid = np.zeros((*symbols.shape, 3), np.int16)
    grid[..., channel] = symbols + 1
    return grid


@DATASETS.register_module()
class SyntheticTasks(Dataset):
    """Square grids of cells of 8 x 8 pixels, whose three colours hold a symbol each, with a label
    for each cell.

    The symbols are the 64 most distinct handwritten digits of scikit-learn. Each symbol is always
    the same image, so recognising it is easy.

    Args:
        task: one of `TASKS`.
        number: number of images.
        size: cells on a side.
        split: 'train', 'val' or 'test'; no image is in two.
        seed: seed of the images.
        settings: arguments of the task, such as `pairs` of `recall`.
    """

    def __init__(
        self,
        task: str,
        number: int,
        size: int = 8,
        split: str = 'train',
        seed: int = 0,
        indices: int | None = None,
        **settings: Any,
    ) -> None:
        for name, value, known in (('task', task, TASKS), ('split', split, SPLITS)):
            if value not in known:
                raise ValueError(f'{name}: expected one of {", ".join(known)}, got {value!r}.')
        rng = np.random.default_rng([seed, SPLITS[split]])
        grids, labels = TASKS[task](rng, min(number, indices or number), size, **settings)
        self.grids = torch.from_numpy(grids).int()
        self.labels = torch.from_numpy(labels).long()
        self.size = size
        self.symbols = symbols()
        self.metainfo = dict(classes=tuple(map(str, range(int(labels.max()) + 1))))

    def __len__(self) -> int:
        return len(self.grids)

    def chance(self) -> float:
        """Accuracy of the most frequent answer, in %."""
        asked = self.labels[self.labels != NO_LABEL]
        return 100 * float(asked.bincount().max()) / len(asked)

    def __getitem__(self, index: int) -> dict[str, Any]:
        side = self.size * CELL
        cells = self.symbols[self.grids[index]].view(self.size, self.size, 3, CELL, CELL)
        sample = DataSample(
            metainfo=dict(sample_idx=index, img_shape=(side, side), ori_shape=(side, side))
        )
        sample.set_field(self.labels[index], 'cell_labels')
        return dict(inputs=cells.permute(2, 0, 3, 1, 4).reshape(3, side, side), data_samples=sample)


@functools.cache
def symbols() -> Tensor:
    """Images of the symbols, `(1 + 4 * 64, 8, 8)`, uint8: an empty one, then 64 in each of four
    brightnesses.
    """
    digits = torch.from_numpy(np.ascontiguousarray(load_glyphs('train').images)).float()
    flat = digits.flatten(1)
    # Each further symbol is the digit that is farthest from those chosen so far.
    chosen = [0]
    distance = torch.cdist(flat, flat[:1])[:, 0]
    while len(chosen) < NUM_SYMBOLS:
        chosen.append(int(distance.argmax()))
        distance = torch.minimum(distance, torch.cdist(flat, flat[chosen[-1:]])[:, 0])
    brightness = torch.tensor([4, 1, 2, 3]).view(-1, 1, 1, 1)
    images = (digits[chosen] * 16).round() * 3 * brightness  # at most 192, without rounding
    return torch.cat([torch.zeros(1, CELL, CELL), images.flatten(0, 1)]).byte()
