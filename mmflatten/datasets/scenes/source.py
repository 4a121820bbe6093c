"""Sources of the objects in scenes: digits or garments."""
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .canvas import Sprite
from .photographs import Photographs


class Objects(Protocol):
    """Objects of one split."""

    def sample(self, rng: np.random.Generator, size: int) -> Sprite:
        """Sample an object of a random class for a scene of `size` pixels, without position and colour."""


@dataclass(frozen=True)
class Source:
    """Objects and photographs, with disjoint training and validation splits.

    Attributes:
        name: singular of the objects.
        number: key of the object numbers in the files.
        folders: class folders of the ImageNet layout, in the order of the classes.
        info: description in the COCO files.
        licenses: licences in the COCO files.
        license_ids: licence by photograph, if not the first.
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
