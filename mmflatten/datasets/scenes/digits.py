"""Handwritten digits on two photographs, all shipped by scikit-learn."""

import numpy as np

from mmflatten.datasets.scenes.glyph import render_glyph
from mmflatten.datasets.scenes.source import (
    Objects,
    Photographs,
    Source,
    load_photographs,
    sklearn_datasets,
)

# The splits do not depend on the seed, so a model can be tested on scenes of another seed.
NUM_VAL_GLYPHS = 360  # the last of the 1797 images in file order; 33 to 37 of each digit
# ranges of 640 columns; a gap of 16 columns separates the splits
PHOTOGRAPH_COLUMNS = {'train': (0, 432), 'val': (448, 640)}
HEIGHT_RANGE = (0.2, 0.48)  # relative to the side of the scene
MIN_HEIGHT = 12  # pixels; smaller digits are unreadable
MAX_TURN = 20  # degrees


def load_glyphs(split: str) -> Objects:
    """Load the 1437 training or 360 validation images of `sklearn.datasets.load_digits`, 8 x 8 in
    [0, 1].
    """
    digits = sklearn_datasets().load_digits()
    border = len(digits.target) - NUM_VAL_GLYPHS
    part = slice(None, border) if split == 'train' else slice(border, None)
    return Objects(
        images=(digits.images[part] / 16).astype(np.float32),
        labels=digits.target[part],
        numbers=np.arange(len(digits.target))[part],
        render=_render,
    )


def _render(
    rng: np.random.Generator, image: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Render a digit with random scale, rotation, slant and stroke width."""
    low, high = np.log(np.maximum(np.multiply(HEIGHT_RANGE, size), MIN_HEIGHT))
    opacity = render_glyph(
        image,
        height=float(np.exp(rng.uniform(low, high))),
        angle=rng.uniform(-MAX_TURN, MAX_TURN),
        slant=rng.uniform(-0.15, 0.25),
        threshold=rng.uniform(0.42, 0.56),
    )
    return opacity, np.ones((*opacity.shape, 3), dtype=np.float32)


def _load_photographs(split: str) -> Photographs:
    return load_photographs(('china.jpg', 'flower.jpg'), PHOTOGRAPH_COLUMNS[split])


DIGIT_CLASSES = tuple(str(digit) for digit in range(10))
DIGITS = Source(
    name='digit',
    number='glyph',
    classes=DIGIT_CLASSES,
    folders=DIGIT_CLASSES,
    info=(
        'Digit scenes: handwritten digits (E. Alpaydin, C. Kaynak: Optical Recognition of'
        ' Handwritten Digits, UCI, 1998) on photographs (danielbuechele: china.jpg, vultilion:'
        ' flower.jpg; both CC BY 2.0), as scikit-learn ships them'
    ),
    licenses=(
        dict(
            id=1,
            name='Creative Commons Attribution 2.0',
            url='https://creativecommons.org/licenses/by/2.0/',
        ),
    ),
    load_objects=load_glyphs,
    load_photographs=_load_photographs,
    license_ids={},
)
