"""Garments of Fashion-MNIST on photographs shipped by scikit-learn and scikit-image."""

from pathlib import Path

import cv2
import numpy as np

from mmflatten.datasets.scenes.glyph import antialias, tight_window
from mmflatten.datasets.scenes.source import Objects, Source, load_photographs
from mmflatten_lab.garments.fashion import GARMENT_CLASSES, SIDE, find_files, load_garments

PHOTOGRAPHS = {
    'train': (
        'china.jpg',
        'rocket.jpg',
        'coffee.png',
        'coins.png',
        'brick.png',
        'grass.png',
        'ihc.png',
    ),
    'val': ('flower.jpg', 'chelsea.png', 'gravel.png'),
}
# relative to the side of the scene: 1.1 to 3.4 times the original at 160 pixels
SIDE_RANGE = (0.2, 0.6)
MIN_GARMENT_SIDE = 14  # pixels, half of the original
MAX_TURN = 15  # degrees
SOFTNESS = 0.6  # standard deviation of the blur that smooths the outline, in original pixels
DUST = 0.02  # smallest connected part that is kept, as a fraction of all garment pixels
FAINT = 16  # of 255; parts without a brighter pixel are remains of the background
DARKEST = 0.25  # brightness of a black garment, so that its colour stays visible


def _render(
    rng: np.random.Generator, image: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Render a garment with random scale, rotation and mirroring."""
    low, high = np.log(np.maximum(np.multiply(SIDE_RANGE, size), MIN_GARMENT_SIDE))
    image = image[:, ::-1] if rng.random() < 0.5 else image
    opacity, shade = render_garment(
        image, float(np.exp(rng.uniform(low, high))), rng.uniform(-MAX_TURN, MAX_TURN)
    )
    return opacity, np.repeat(DARKEST + (1 - DARKEST) * shade[..., None], 3, axis=2)


def render_garment(
    image: np.ndarray, side: float, angle: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Render a garment (28, 28) uint8 as opacity and shade, (h, w) float32 in [0, 1] each, tightly
    cropped.

    The outline is smooth with an edge one pixel wide. The shade extends beyond it, so that the rim
    is not dark.

    Args:
        side: of the upright image, in pixels.
        angle: in degrees, counter-clockwise.
    """
    solid = garment_mask(image).astype(np.float32)
    weight, light = (
        cv2.GaussianBlur(part, (0, 0), SOFTNESS, borderType=cv2.BORDER_CONSTANT)
        for part in (solid, solid * image / 255)
    )
    length = int(np.ceil(side * np.sqrt(2))) + 4
    turn = cv2.getRotationMatrix2D(((SIDE - 1) / 2, (SIDE - 1) / 2), angle, side / SIDE)
    turn[:, 2] += (length - SIDE) / 2
    weight, light = (
        cv2.warpAffine(part, turn, (length, length), flags=cv2.INTER_LINEAR)
        for part in (weight, light)
    )
    opacity = antialias(weight, 0.5, 0.02)
    tight = tight_window(opacity)
    return opacity[tight], np.clip(light / np.maximum(weight, 1e-3), 0, 1)[tight].astype(np.float32)


def garment_mask(image: np.ndarray) -> np.ndarray:
    """Return the mask of the garment, (28, 28) bool: pixels above 0 without dust and faint
    streaks.
    """
    count, parts = cv2.connectedComponents((image > 0).astype(np.uint8), connectivity=4)
    area = np.bincount(parts.ravel(), minlength=count)
    peak = np.array([image[parts == part].max() for part in range(count)])
    return ((area >= DUST * area[1:].sum()) & (peak >= FAINT))[parts]


def garments(folder: Path | None = None) -> Source:
    """Create the source of the Fashion-MNIST files in `folder`, or in a default folder."""
    files = find_files(folder)
    return Source(
        name='garment',
        number='garment',
        classes=GARMENT_CLASSES,
        folders=tuple(
            f'{label}_{name.replace(" ", "-")}' for label, name in enumerate(GARMENT_CLASSES)
        ),
        info=(
            'Garment scenes: garments (Fashion-MNIST, arXiv:1708.07747; MIT, Zalando SE, 2017) on'
            ' photographs as scikit-learn ships them (danielbuechele: china.jpg, vultilion:'
            ' flower.jpg; both CC BY 2.0) and scikit-image (SpaceX: rocket.jpg, Rachel Michetti:'
            ' coffee.png, Stefan van der Walt: chelsea.png, Brooklyn Museum: coins.png, CMMI:'
            ' ihc.png, CC0Textures: brick.png and gravel.png, linolafett: grass.png)'
        ),
        licenses=(
            dict(
                id=1,
                name='CC0, public domain, or no known copyright restrictions',
                url='https://creativecommons.org/publicdomain/zero/1.0/',
            ),
            dict(
                id=2,
                name='Creative Commons Attribution 2.0',
                url='https://creativecommons.org/licenses/by/2.0/',
            ),
        ),
        load_objects=lambda split: Objects(*load_garments(split, files), _render),
        load_photographs=lambda split: load_photographs(PHOTOGRAPHS[split]),
        license_ids={'china.jpg': 2, 'flower.jpg': 2},
    )
