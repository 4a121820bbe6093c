"""Building scenes with a single view."""
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mmflatten.datasets.build import SPLITS, BuildOptions, build

from .contact_sheet import draw_contact_sheet
from .digits import DIGITS
from .layouts import SplitWriter
from .scene import sample_scene
from .source import Source


@dataclass(frozen=True)
class SceneOptions(BuildOptions):
    """Number of scenes per split, side of a scene in pixels, and seed."""

    limits: ClassVar[dict[str, tuple[int, int]]] = dict(BuildOptions.limits, size=(32, 1024), seed=(0, 2**32 - 1))

    train: int = 1000
    val: int = 200
    size: int = 160
    seed: int = 0


def build_scenes(out: Path, options: SceneOptions, source: Source = DIGITS, force: bool = False,
                 on_image: Callable[[], Any] = lambda: None) -> dict[str, Any]:
    """Write scenes in all layouts and return the manifest. `on_image` is called after each scene.

    The same options give the same bytes, and a scene does not depend on the number of scenes.
    """
    return build(out, f'{source.name} scenes', options, partial(_write_split, source),
                 partial(draw_contact_sheet, source), force, on_image)


def _write_split(source: Source, folder: Path, split: str, options: SceneOptions, on_image: Callable[[], Any]) -> int:
    objects, photographs = source.load_objects(split), source.load_photographs(split)
    writer = SplitWriter(folder, split, source)
    for number in range(getattr(options, split)):
        rng = np.random.default_rng([options.seed, SPLITS.index(split), number])
        writer.add(sample_scene(rng, objects, photographs, options.size))
        on_image()
    writer.close()
    return len(writer.annotations)
