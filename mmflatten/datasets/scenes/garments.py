"""Garments of Fashion-MNIST on photographs of scikit-learn and scikit-image."""
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cv2
import numpy as np

from mmflatten.datasets.fashion import CLASSES, SIDE, Garments, find_files, load_garments

from .canvas import Sprite
from .photographs import Photographs, load_photographs
from .source import Source

PHOTOGRAPHS = {
    'train': ('china.jpg', 'rocket.jpg', 'coffee.png', 'coins.png', 'brick.png', 'grass.png', 'ihc.png'),
    'val': ('flower.jpg', 'chelsea.png', 'gravel.png'),
}
SIDE_RANGE = (0.2, 0.6)  # of the scene's side: 1.1 to 3.4 times the original at 160 pixels
MIN_SIDE = 14  # pixels: half of the original
MAX_TURN = 15  # degrees
SOFTNESS = 0.6  # standard deviation of the blur, in original pixels, that melts the stairs of an outline
DUST = 0.02  # of a garment's pixels: parts smaller than this are specks beside it
FAINT = 16  # of 255: parts that reach it nowhere are traces of a cleaned background
DARKEST = 0.25  # brightness of a black garment: it keeps a little of its tint


@dataclass(frozen=True)
class GarmentSprites:
    """Garments as objects of scenes."""

    garments: Garments

    def sample(self, rng: np.random.Generator, size: int) -> Sprite:
        """A random garment of random scale and turn, mirrored half of the time; every class is equally likely."""
        position = int(rng.choice(np.flatnonzero(self.garments.labels == rng.integers(len(CLASSES)))))
        low, high = np.log(np.maximum(np.multiply(SIDE_RANGE, size), MIN_SIDE))
        image = self.garments.images[position]
        image = image[:, ::-1] if rng.random() < 0.5 else image
        opacity, shade = render_garment(image, float(np.exp(rng.uniform(low, high))), rng.uniform(-MAX_TURN, MAX_TURN))
        return Sprite(opacity, np.repeat(DARKEST + (1 - DARKEST) * shade[..., None], 3, axis=2),
                      int(self.garments.labels[position]), int(self.garments.numbers[position]))


def render_garment(image: np.ndarray, side: float, angle: float = 0.) -> tuple[np.ndarray, np.ndarray]:
    """Opacity and shade, (h, w) float32 in [0, 1] each, of a garment (28, 28) uint8, tightly cropped.

    ``side`` is that of the upright image in pixels, ``angle`` in degrees counter-clockwise. The outline is
    smooth and one pixel soft, and the shade goes on behind it, so that no rim is dark.
    """
    solid = garment_mask(image).astype(np.float32)
    weight, light = (cv2.GaussianBlur(part, (0, 0), SOFTNESS, borderType=cv2.BORDER_CONSTANT)
                     for part in (solid, solid * image / 255))
    length = int(np.ceil(side * np.sqrt(2))) + 4
    turn = cv2.getRotationMatrix2D(((SIDE - 1) / 2, (SIDE - 1) / 2), angle, side / SIDE)
    turn[:, 2] += (length - SIDE) / 2
    weight, light = (cv2.warpAffine(part, turn, (length, length), flags=cv2.INTER_LINEAR) for part in (weight, light))
    # Weight divided by its slope is a distance in pixels, so the edge is one pixel wide at every scale.
    slope = np.hypot(*np.gradient(weight))
    opacity = np.clip((weight - 0.5) / np.maximum(slope, 0.02) + 0.5, 0, 1).astype(np.float32)
    rows, columns = np.flatnonzero(opacity.any(axis=1)), np.flatnonzero(opacity.any(axis=0))
    tight = np.s_[rows[0]:rows[-1] + 1, columns[0]:columns[-1] + 1]
    return opacity[tight], np.clip(light / np.maximum(weight, 1e-3), 0, 1)[tight].astype(np.float32)


def garment_mask(image: np.ndarray) -> np.ndarray:
    """Where the garment is, (28, 28) bool: what is above 0, but for dust and faint streaks beside it."""
    count, parts = cv2.connectedComponents((image > 0).astype(np.uint8), connectivity=4)
    area = np.bincount(parts.ravel(), minlength=count)
    peak = np.array([image[parts == part].max() for part in range(count)])
    return ((area >= DUST * area[1:].sum()) & (peak >= FAINT))[parts]


def load_sprites(split: str, folder: Path) -> GarmentSprites:
    """60,000 garments for training, 10,000 others for validation."""
    return GarmentSprites(load_garments(split, folder))


def load_whole_photographs(split: str) -> Photographs:
    """Seven photographs for training, three others for validation."""
    return load_photographs(PHOTOGRAPHS[split])


def garments(folder: Path | None = None) -> Source:
    """The garments of Fashion-MNIST's files in ``folder``, or where they are usually found."""
    return Source(
        name='garment',
        number='garment',
        classes=CLASSES,
        folders=tuple(f'{label}_{name.replace(" ", "-")}' for label, name in enumerate(CLASSES)),
        info='Garment scenes: garments (Fashion-MNIST, arXiv:1708.07747; MIT, Zalando SE, 2017) on photographs as '
        'scikit-learn ships them (danielbuechele: china.jpg, vultilion: flower.jpg; both CC BY 2.0) and scikit-image '
        '(SpaceX: rocket.jpg, Rachel Michetti: coffee.png, Stefan van der Walt: chelsea.png, Brooklyn Museum: '
        'coins.png, CMMI: ihc.png, CC0Textures: brick.png and gravel.png, linolafett: grass.png)',
        licenses=(dict(id=1, name='CC0, public domain, or no known copyright restrictions',
                       url='https://creativecommons.org/publicdomain/zero/1.0/'),
                  dict(id=2, name='Creative Commons Attribution 2.0',
                       url='https://creativecommons.org/licenses/by/2.0/')),
        load_objects=partial(load_sprites, folder=find_files(folder)),
        load_photographs=load_whole_photographs,
        license_ids={'china.jpg': 2, 'flower.jpg': 2})
