"""Handwriting and photographs that scikit-learn ships, split so that validation shares nothing with training."""
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

import cv2
import numpy as np

SPLITS = ('train', 'val')

# Both splits are fixed and do not depend on the seed: scenes made with one seed can be tested on scenes of another.
NUM_VAL_GLYPHS = 360  # the last of the 1797 images, in the order of the file; every digit occurs 33 to 37 times
PHOTOGRAPH_COLUMNS = {'train': (0, 432), 'val': (448, 640)}  # of 640; 16 columns lie in neither


@dataclass(frozen=True)
class Glyphs:
    """Handwritten digits of one split.

    ``images`` is (n, 8, 8) float32 in [0, 1], ``labels`` (n,) holds the digits 0 to 9, and ``indices`` (n,) the
    positions in ``sklearn.datasets.load_digits``.
    """

    images: np.ndarray
    labels: np.ndarray
    indices: np.ndarray

    def draw(self, rng: np.random.Generator) -> int:
        """Position of a random glyph; each of the ten digits is equally likely."""
        return int(rng.choice(np.flatnonzero(self.labels == rng.integers(10))))


@dataclass(frozen=True)
class BackgroundSource:
    """Where a background was cut: photograph, and box (x, y, width, height) in its pixels."""

    photograph: str
    box: tuple[int, int, int, int]


@dataclass(frozen=True)
class Photographs:
    """Parts of photographs that belong to one split: ``regions`` of (H, W, 3) uint8 RGB, the first column of each."""

    names: tuple[str, ...]
    regions: tuple[np.ndarray, ...]
    first_column: int

    def crop(self, rng: np.random.Generator, height: int, width: int) -> tuple[np.ndarray, BackgroundSource]:
        """A random cut, scaled to (height, width, 3) uint8, mirrored half of the time, with its origin.

        A cut spans 0.8 to 1.6 photograph pixels per output pixel, less where the region is too small for that.
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


def load_glyphs(split: str) -> Glyphs:
    """The 1437 training or 360 validation images of ``sklearn.datasets.load_digits`` (8 x 8, values 0 to 16)."""
    digits = _sklearn_datasets().load_digits()
    border = len(digits.target) - NUM_VAL_GLYPHS
    part = slice(None, border) if split == 'train' else slice(border, None)
    indices = np.arange(len(digits.target))[part]
    return Glyphs((digits.images[part] / 16).astype(np.float32), digits.target[part], indices)


def load_photographs(split: str) -> Photographs:
    """The left part (training) or the right part (validation) of both photographs, 427 pixels high."""
    load_sample_image = _sklearn_datasets().load_sample_image
    names = ('china.jpg', 'flower.jpg')
    first, last = PHOTOGRAPH_COLUMNS[split]
    return Photographs(names, tuple(load_sample_image(name)[:, first:last] for name in names), first)


def _sklearn_datasets() -> ModuleType:
    """``sklearn.datasets``, imported late: only making the scenes needs scikit-learn, using them does not."""
    try:
        return import_module('sklearn.datasets')
    except ImportError as error:
        raise ImportError('the handwriting and the photographs come with scikit-learn, which is not installed; '
                          'install it with `pip install scikit-learn`') from error
