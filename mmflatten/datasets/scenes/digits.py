"""Handwritten digits on two photographs, all of which scikit-learn ships."""
from dataclasses import dataclass

import numpy as np

from mmflatten.datasets.packages import sklearn_datasets

from .canvas import Sprite
from .glyph import render_glyph
from .photographs import Photographs, load_photographs
from .source import Source

# Both splits are fixed and do not depend on the seed: scenes made with one seed can be tested on scenes of another.
NUM_VAL_GLYPHS = 360  # the last of the 1797 images, in the order of the file; every digit occurs 33 to 37 times
PHOTOGRAPH_COLUMNS = {'train': (0, 432), 'val': (448, 640)}  # of 640; 16 columns lie in neither
HEIGHT_RANGE = (0.2, 0.48)  # of the scene's side
MIN_HEIGHT = 12  # pixels: the 8 x 8 originals are no longer readable below
MAX_TURN = 20  # degrees


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

    def sample(self, rng: np.random.Generator, size: int) -> Sprite:
        """A random digit of random scale, turn, slant and pen."""
        position = self.draw(rng)
        low, high = np.log(np.maximum(np.multiply(HEIGHT_RANGE, size), MIN_HEIGHT))
        opacity = render_glyph(
            self.images[position],
            height=float(np.exp(rng.uniform(low, high))),
            angle=rng.uniform(-MAX_TURN, MAX_TURN),
            slant=rng.uniform(-0.15, 0.25),
            threshold=rng.uniform(0.42, 0.56))
        shade = np.ones((*opacity.shape, 3), dtype=np.float32)
        return Sprite(opacity, shade, int(self.labels[position]), int(self.indices[position]))


def load_glyphs(split: str) -> Glyphs:
    """The 1437 training or 360 validation images of ``sklearn.datasets.load_digits`` (8 x 8, values 0 to 16)."""
    digits = sklearn_datasets().load_digits()
    border = len(digits.target) - NUM_VAL_GLYPHS
    part = slice(None, border) if split == 'train' else slice(border, None)
    indices = np.arange(len(digits.target))[part]
    return Glyphs((digits.images[part] / 16).astype(np.float32), digits.target[part], indices)


def load_halves(split: str) -> Photographs:
    """The left part (training) or the right part (validation) of both photographs, 427 pixels high."""
    return load_photographs(('china.jpg', 'flower.jpg'), PHOTOGRAPH_COLUMNS[split])


CLASSES = tuple(str(digit) for digit in range(10))
DIGITS = Source(
    name='digit',
    number='glyph',
    classes=CLASSES,
    folders=CLASSES,
    info='Digit scenes: handwritten digits (E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits, '
    'UCI, 1998) on photographs (danielbuechele: china.jpg, vultilion: flower.jpg; both CC BY 2.0), as scikit-learn '
    'ships them',
    licenses=(dict(id=1, name='Creative Commons Attribution 2.0',
                   url='https://creativecommons.org/licenses/by/2.0/'), ),
    load_objects=load_glyphs,
    load_photographs=load_halves,
    license_ids={})
