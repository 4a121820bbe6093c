"""What the objects of scenes are: digits or garments."""
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .canvas import Sprite
from .photographs import Photographs


class Objects(Protocol):
    """The objects of one split."""

    def sample(self, rng: np.random.Generator, size: int) -> Sprite:
        """A random object of a random class, for a scene of ``size`` pixels; without place and colour as yet."""


@dataclass(frozen=True)
class Source:
    """Objects and photographs, each split so that validation shares nothing with training.

    ``name`` is the singular of the objects, ``number`` the name of their numbers in the files; ``folders`` are those
    of the ImageNet layout, sorted as the classes are. ``info`` and ``licenses`` stand in the COCO files, and
    ``license_ids`` says which licence a photograph has, if not the first.
    """

    name: str
    number: str
    classes: tuple[str, ...]
    folders: tuple[str, ...]
    info: str
    licenses: tuple[dict[str, Any], ...]
    load_objects: Callable[[str], Objects]
    load_photographs: Callable[[str], Photographs]
    license_ids: dict[str, int]
