"""Canvases of 8 x 8 garments, 224 pixels wide: 3,136 patches of 4 x 4 pixels, for attention over long sequences.

The label is the class of the garment on red ground, so a model has to search the whole canvas and to ignore 63
distractors. Head and metric are the same as for single garments.
"""
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mmflatten.datasets.build import SPLITS, BuildOptions, build
from mmflatten.datasets.fashion import SIDE, Garments, find_files, load_garments, write_grid, write_images

CANVAS_KIND = 'garment canvases'
CELLS = 8  # per side
RED = 160  # minimum red value in the marked cell


@dataclass(frozen=True)
class CanvasOptions(BuildOptions):
    """Number of canvases per split, and seed."""

    limits: ClassVar[dict[str, tuple[int, int]]] = dict(BuildOptions.limits, seed=(0, 2**32 - 1))

    train: int = 5000
    val: int = 1000
    seed: int = 0


def build_canvases(out: Path, options: CanvasOptions, folder: Path | None = None, force: bool = False,
                   on_image: Callable[[], Any] = lambda: None) -> dict[str, Any]:
    """Write `{train,val}/00000.png` and `{train,val}.txt` with files and labels, and return the manifest.

    A canvas does not depend on the number of canvases.
    """
    return build(out, CANVAS_KIND, options, partial(_write_split, find_files(folder)), _draw_sheet, force, on_image)


def sample_canvas(rng: np.random.Generator, garments: Garments) -> tuple[np.ndarray, int]:
    """Sample 64 different garments as (224, 224, 3) uint8 RGB, and the class of the garment in the marked cell."""
    chosen = rng.choice(len(garments.labels), CELLS**2, replace=False)
    grey = garments.images[chosen].reshape(CELLS, CELLS, SIDE, SIDE).swapaxes(1, 2).reshape(CELLS * SIDE, CELLS * SIDE)
    canvas = np.repeat(grey[..., None], 3, axis=2)
    marked = int(rng.integers(CELLS**2))
    top, left = (SIDE * place for place in divmod(marked, CELLS))
    cell = canvas[top:top + SIDE, left:left + SIDE, 0]
    np.maximum(cell, RED, out=cell)
    return canvas, int(garments.labels[chosen[marked]])


def _write_split(source: Path, folder: Path, split: str, options: CanvasOptions, on_image: Callable[[], Any]) -> int:
    garments, number_of_canvases = load_garments(split, source), getattr(options, split)

    def images() -> Iterator[tuple[np.ndarray, int]]:
        for number in range(number_of_canvases):
            yield sample_canvas(np.random.default_rng([options.seed, SPLITS.index(split), number]), garments)

    write_images(folder, split, images(), on_image)
    return number_of_canvases * CELLS**2


def _draw_sheet(folder: Path) -> None:
    rows = [sorted((folder / split).iterdir())[:4] for split in SPLITS]
    write_grid(folder / 'contact_sheet.png', rows, CELLS * SIDE, 4, gap=8)
