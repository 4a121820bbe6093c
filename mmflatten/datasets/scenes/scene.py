"""Random scenes of one to eight objects, more in larger ones, with random scale, rotation and
colour.
"""

import colorsys
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmflatten.datasets.scenes.canvas import Canvas, Sprite
from mmflatten.datasets.scenes.source import Objects, Photographs

MAX_OBJECTS = 8
MIN_VISIBLE = 0.85  # fraction of an object's pixels; other placements are rejected
# dark photographs and bright objects are learnt in minutes, without being trivial
BACKGROUND_GAIN = (0.45, 0.75)
MIN_BRIGHTNESS = 160  # luma of an object
MIN_CONTRAST = 90  # RGB distance to the mean of the pixels below, and to objects that may touch
LUMA = np.array([0.299, 0.587, 0.114])
PLACEMENTS_PER_SPRITE = 25

# Index maps as in ADE20K: 0 is unlabelled and ignored, classes start at 1.
UNLABELLED = 0
BACKGROUND = 1
FIRST_CLASS = 2


@dataclass(frozen=True, eq=False)
class Scene:
    """A picture and its labels.

    Attributes:
        picture: (H, W, 3) uint8 RGB.
        sprites: back to front.
        masks: visible pixels, (n, H, W) bool.
        index_map: class of each pixel as in ADE20K, (H, W) uint8: 0 soft rim of an object, 1
            background, 2 to 11.
        background: `photograph` and `box` of the background.
    """

    picture: np.ndarray
    sprites: tuple[Sprite, ...]
    masks: np.ndarray
    index_map: np.ndarray
    background: dict[str, Any]


def sample_scene(
    rng: np.random.Generator, objects: Objects, photographs: Photographs, size: int
) -> Scene:
    """Sample a square scene of `size` pixels. Every object lies inside and at least 85 % of it is
    visible.

    Objects that do not fit are left out, except for the first, which always fits.

    Raises:
        ValueError: `size` is not a multiple of the objects' `reference`.
    """
    background, source = sample_background(rng, objects, photographs, size)
    canvas = Canvas(background * rng.uniform(*BACKGROUND_GAIN))
    sprites = place_objects(rng, canvas, objects, size)

    values = [sprite.label + FIRST_CLASS for sprite in sprites] + [BACKGROUND]
    # -1, the background, is the last value
    index_map = np.array(values, dtype=np.uint8)[canvas.owner]
    index_map[canvas.rim] = UNLABELLED
    return Scene(
        picture=canvas.picture(),
        sprites=tuple(sprites),
        masks=canvas.masks(),
        index_map=index_map,
        background=source,
    )


def sample_background(
    rng: np.random.Generator, objects: Objects, photographs: Photographs, size: int
) -> tuple[np.ndarray, dict[str, Any]]:
    """Sample a background (size, size, 3) uint8 for objects, with its `photograph` and `box`.

    Raises:
        ValueError: `size` is not a multiple of the objects' `reference`.
    """
    reference = objects.reference or size
    if size % reference:
        raise ValueError(f'size: expected a multiple of {reference}, got {size}.')
    background, source = photographs.crop(rng, reference, reference)
    margin = (0, size - reference)
    return np.pad(background, (margin, margin, (0, 0)), mode='symmetric'), source


def place_objects(
    rng: np.random.Generator, canvas: Canvas, objects: Objects, size: int
) -> list[Sprite]:
    """Paste a random number of objects on a canvas of `size` pixels; returns them back to front."""
    reference = objects.reference or size
    number = 0
    for _ in range((size // reference) ** 2):
        number += int(rng.integers(1, MAX_OBJECTS + 1))
    sprites: list[Sprite] = []
    for _ in range(number):
        sprite = _place(rng, canvas, objects.sample(rng, reference))
        if sprite is not None:
            sprite = dataclasses.replace(sprite, colour=sample_colour(rng, canvas, sprite, sprites))
            canvas.paste(sprite)
            sprites.append(sprite)
    return sprites


def _place(rng: np.random.Generator, canvas: Canvas, sprite: Sprite) -> Sprite | None:
    """Place a sprite at random inside the canvas so that every object stays visible; None if it
    does not fit.
    """
    room = np.subtract(canvas.owner.shape, sprite.opacity.shape)
    if room.min() < 0:
        return None
    for _ in range(PLACEMENTS_PER_SPRITE):
        top, left = rng.integers(0, room + 1)
        placed = dataclasses.replace(sprite, top=int(top), left=int(left))
        if canvas.visible_fractions(placed).min() >= MIN_VISIBLE:
            return placed
    return None


def sample_colour(
    rng: np.random.Generator, canvas: Canvas, sprite: Sprite, below: Sequence[Sprite]
) -> np.ndarray:
    """Sample a bright colour that contrasts with the canvas and the objects `below`.

    Returns the colour with a faint gradient, multiplied by the shade of the sprite, (h, w, 3).
    """
    target, part = canvas.overlap(sprite)
    weights = np.repeat(sprite.opacity[part][..., None], 3, 2)
    others = [np.average(canvas.image[target], axis=(0, 1), weights=weights)]
    for other in below:
        if _boxes_touch(sprite, other):
            others.append(other.colour.mean(axis=(0, 1)))

    # The first colour with enough contrast and brightness, or else the best one
    best, best_score = None, -np.inf
    for _ in range(20):
        hue, saturation, value = rng.random(), rng.uniform(0.05, 0.9), rng.uniform(0.75, 1)
        colour = 255 * np.array(colorsys.hsv_to_rgb(hue, saturation, value))
        contrast = min(np.linalg.norm(colour - other) for other in others)
        score = min(contrast / MIN_CONTRAST, colour @ LUMA / MIN_BRIGHTNESS)
        if score > best_score:
            best, best_score = colour, score
        if score >= 1:
            break
    height, width = sprite.opacity.shape
    rows, columns = np.linspace(-1, 1, height), np.linspace(-1, 1, width)
    slope = rng.uniform(-18, 18, size=2)
    ramp = slope[0] * rows[:, None] + slope[1] * columns[None]
    return np.clip(best + ramp[..., None], 0, 255).astype(np.float32) * sprite.colour


def _boxes_touch(one: Sprite, other: Sprite) -> bool:
    height, width = one.opacity.shape
    other_height, other_width = other.opacity.shape
    in_rows = one.top < other.top + other_height and other.top < one.top + height
    in_columns = one.left < other.left + other_width and other.left < one.left + width
    return in_rows and in_columns
