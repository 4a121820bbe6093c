"""Photographs of scikit-learn and scikit-image as backgrounds."""
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from mmflatten.datasets.packages import skimage_file, sklearn_datasets


@dataclass(frozen=True)
class BackgroundSource:
    """Photograph of a background, and the box (x, y, width, height) in it."""

    photograph: str
    box: tuple[int, int, int, int]


@dataclass(frozen=True)
class Photographs:
    """Photographs of one split: `regions` are (H, W, 3) uint8 RGB, cut from `first_column` on."""

    names: tuple[str, ...]
    regions: tuple[np.ndarray, ...]
    first_column: int

    def crop(self, rng: np.random.Generator, height: int, width: int) -> tuple[np.ndarray, BackgroundSource]:
        """Sample a crop, resized to (height, width, 3) uint8 and randomly mirrored, and its origin.

        An output pixel covers 0.8 to 1.6 photograph pixels, fewer if the region is too small.
        """
        which = int(rng.integers(len(self.regions)))
        region = self.regions[which]
        scale = min(rng.uniform(0.8, 1.6), region.shape[0] / height, region.shape[1] / width)
        cut_height, cut_width = max(1, int(height * scale)), max(1, int(width * scale))
        top = int(rng.integers(region.shape[0] - cut_height + 1))
        left = int(rng.integers(region.shape[1] - cut_width + 1))
        cut = region[top:top + cut_height, left:left + cut_width]
        interpolation = cv2.INTER_AREA if scale > 1 else cv2.INTER_LINEAR
        cut = cv2.resize(cut, (width, height), interpolation=interpolation)
        if rng.random() < 0.5:
            cut = cut[:, ::-1]
        source = BackgroundSource(self.names[which], (self.first_column + left, top, cut_width, cut_height))
        return np.ascontiguousarray(cut), source


def load_photographs(names: Sequence[str], columns: tuple[int, int | None] = (0, None)) -> Photographs:
    """Load photographs by file name, with all rows and the given range of columns."""
    return Photographs(tuple(names), tuple(read_photograph(name)[:, slice(*columns)] for name in names), columns[0])


def read_photograph(name: str) -> np.ndarray:
    """Read a photograph of scikit-learn (china.jpg, flower.jpg) or scikit-image, (H, W, 3) uint8 RGB."""
    if name in ('china.jpg', 'flower.jpg'):
        return sklearn_datasets().load_sample_image(name)
    return cv2.cvtColor(cv2.imread(str(skimage_file(name))), cv2.COLOR_BGR2RGB)
