"""Canvases of 8 x 8 garments, 224 pixels wide: 3,136 patches of 4 x 4 pixels, for attentions over long sequences.

The garment to name lies on a red ground. So the whole picture must be searched, and one garment kept from 63 others;
head and metric are those of the single garments.
"""
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from mmflatten.datasets.build import SPLITS, BuildOptions, build
from mmflatten.datasets.fashion import SIDE, Garments, find_files, load_garments, write_images

KIND = 'garment canvases'
CELLS = 8  # per side
RED = 160  # least red value in the marked cell


@dataclass(frozen=True)
class CanvasOptions(BuildOptions):
    """Canvases per split, and seed."""

    limits: ClassVar[dict[str, tuple[int, int]]] = dict(BuildOptions.limits, seed=(0, 2**32 - 1))

    train: int = 5000
    val: int = 1000
    seed: int = 0


def build_canvases(out: Path, options: CanvasOptions, folder: Path | None = None, force: bool = False,
                   on_image: Callable[[], Any] = lambda: None) -> dict[str, Any]:
    """Write ``{train,val}/00000.png`` with the lists ``{train,val}.txt`` of files and labels; returns the manifest.

    A canvas does not depend on how many others there are.
    """
    return build(out, KIND, options, partial(_write_split, find_files(folder)), draw_sheet, force, on_image)


def sample_canvas(rng: np.random.Generator, garments: Garments) -> tuple[np.ndarray, int]:
    """64 different garments, (224, 224, 3) uint8 RGB, and the class of the one in the marked cell."""
    chosen = rng.choice(len(garments.labels), CELLS**2, replace=False)
    grey = garments.images[chosen].reshape(CELLS, CELLS, SIDE, SIDE).swapaxes(1, 2).reshape(CELLS * SIDE, CELLS * SIDE)
    canvas = np.repeat(grey[..., None], 3, axis=2)
    marked = int(rng.integers(CELLS**2))
    top, left = (SIDE * place for place in divmod(marked, CELLS))
    cell = canvas[top:top + SIDE, left:left + SIDE, 0]
    np.maximum(cell, RED, out=cell)
    return canvas, int(garments.labels[chosen[marked]])


def _write_split(source: Path, folder: Path, split: str, options: CanvasOptions, on_image: Callable[[], Any]) -> int:
    """Write one split; returns its number of garments."""
    garments, wanted = load_garments(split, source), getattr(options, split)

    def images() -> Iterator[tuple[np.ndarray, int]]:
        for number in range(wanted):
            yield sample_canvas(np.random.default_rng([options.seed, SPLITS.index(split), number]), garments)

    write_images(folder, split, images(), on_image)
    return wanted * CELLS**2


def draw_sheet(folder: Path) -> None:
    """Write ``contact_sheet.png``: the first canvases of both splits, read back, a row each."""
    side = CELLS * SIDE
    sheet = Image.new('RGB', (4 * side + 24, 2 * side + 8), 'white')
    for row, split in enumerate(SPLITS):
        for column, path in enumerate(sorted((folder / split).iterdir())[:4]):
            with Image.open(path) as image:
                sheet.paste(image, (column * (side + 8), row * (side + 8)))
    sheet.save(folder / 'contact_sheet.png')
