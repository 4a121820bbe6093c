"""Handwritten digits on two photographs, all shipped by scikit-learn."""
from dataclasses import dataclass

import numpy as np

from mmflatten.datasets.packages import sklearn_datasets

from .canvas import Sprite
from .glyph import render_glyph
from .photographs import Photographs, load_photographs
from .source import Source

# The splits do not depend on the seed, so a model can be tested on scenes of another seed.
NUM_VAL_GLYPHS = 360  # the last of the 1797 images in file order; 33 to 37 of each digit
PHOTOGRAPH_COLUMNS = {'train': (0, 432), 'val': (448, 640)}  # of 640; a gap of 16 columns separates the splits
HEIGHT_RANGE = (0.2, 0.48)  # relative to the side of the scene
MIN_HEIGHT = 12  # pixels; smaller digits are unreadable
MAX_TURN = 20  # degrees


@dataclass(frozen=True)
class Glyphs:
    """Handwritten digits of one split.

    Attributes:
        images: (n, 8, 8) float32 in [0, 1].
        labels: (n,), 0 to 9.
        indices: (n,), positions in `sklearn.datasets.load_digits`.
    """

    images: np.ndarray
    labels: np.ndarray
    indices: np.ndarray

    def sample(self, rng: np.random.Generator, size: int) -> Sprite:
        """Sample a digit, each equally likely, with random scale, rotation, slant and stroke width."""
        position = int(rng.choice(np.flatnonzero(self.labels == rng.integers(10))))
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
    """Load the 1437 training or 360 validation images of `sklearn.datasets.load_digits` (8 x 8, values 0 to 16)."""
    digits = sklearn_datasets().load_digits()
    border = len(digits.target) - NUM_VAL_GLYPHS
    part = slice(None, border) if split == 'train' else slice(border, None)
    indices = np.arange(len(digits.target))[part]
    return Glyphs((digits.images[part] / 16).astype(np.float32), digits.target[part], indices)


def load_halves(split: str) -> Photographs:
    """Load the left part (training) or the right part (validation) of both photographs, 427 pixels high."""
    return load_photographs(('china.jpg', 'flower.jpg'), PHOTOGRAPH_COLUMNS[split])


DIGIT_CLASSES = tuple(str(digit) for digit in range(10))
DIGITS = Source(
    name='digit',
    number='glyph',
    classes=DIGIT_CLASSES,
    folders=DIGIT_CLASSES,
    info='Digit scenes: handwritten digits (E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits, '
    'UCI, 1998) on photographs (danielbuechele: china.jpg, vultilion: flower.jpg; both CC BY 2.0), as scikit-learn '
    'ships them',
    licenses=(dict(id=1, name='Creative Commons Attribution 2.0',
                   url='https://creativecommons.org/licenses/by/2.0/'), ),
    load_objects=load_glyphs,
    load_photographs=load_halves,
    license_ids={})
