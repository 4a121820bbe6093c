"""A rectified pair of pictures of a layered scene, with exact disparity and occlusion.

Every layer, the photograph and each object, has one disparity per row of the picture. All of them are multiples of
`1 / SUPERSAMPLING` of a pixel, and a scene is composed on a grid that many times finer: there the right view is the
left one with the rows of its layers moved by whole cells, and no colour is ever interpolated for a view. Both views are
then averaged over the cells of a pixel, as the area of a sensor does. Disparities are therefore exact to the last bit,
and what the right camera sees is known, not estimated.
"""
from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import cv2
import numpy as np

from .canvas import Canvas, Sprite
from .photographs import BackgroundSource, Photographs
from .scene import MAX_OBJECTS, sample_colour
from .source import Objects

SUPERSAMPLING = 4  # cells per pixel, in both directions
ASPECT = 2  # width of a picture over its height
MAX_DISPARITY = 0.2  # of the width; nothing in a scene has more
# The photograph recedes like a floor seen from above: its disparity grows from the first row to the last.
FAR_DISPARITY = (0.01, 0.04)  # of the width, at the first row
FLOOR_SLOPE = (0.0, 0.04)  # of the width, added until the last row
OBJECT_SCALE = 1.4  # objects are this much larger than in the scenes of a single view
GRAIN = 14.0  # standard deviation of the grain in grey levels: a plain sky alone would have no disparity to find
TILT = 0.4  # of an object's share of the depths behind the nearest: how far its disparity may change over its height


@dataclass(frozen=True, eq=False)
class StereoScene:
    """A pair of pictures, (H, W, 3) uint8 RGB each, and what is known of the left one's pixels.

    ``disparity`` (H, W) float32, in pixels, that of the layer in the centre of a pixel; ``occluded`` (H, W) bool, where
    the right picture does not show that point, because another layer hides it or it lies outside. ``numbers`` are
    those of the objects in their source, the farthest first.
    """

    left: np.ndarray
    right: np.ndarray
    disparity: np.ndarray
    occluded: np.ndarray
    numbers: tuple[int, ...]
    background: BackgroundSource


@dataclass(frozen=True, eq=False)
class Layer:
    """An object on the fine grid and its disparity in cells, (h,) integers, one for each of its rows."""

    sprite: Sprite
    shift: np.ndarray

    def seen_from_the_right(self) -> Sprite:
        """The sprite with every row moved to the left by its shift."""
        least = int(self.shift.min())
        columns = self.sprite.opacity.shape[1]
        wide = columns + int(self.shift.max()) - least
        opacity = np.zeros((len(self.shift), wide), dtype=np.float32)
        colour = np.zeros((len(self.shift), wide, 3), dtype=np.float32)
        for row, shift in enumerate(self.shift):
            start = int(self.shift.max()) - shift
            opacity[row, start:start + columns] = self.sprite.opacity[row]
            colour[row, start:start + columns] = self.sprite.colour[row]
        left = self.sprite.left - int(self.shift.max())
        return dataclasses.replace(self.sprite, opacity=opacity, colour=colour, left=left)


def max_disparity(height: int) -> float:
    """Upper bound of the disparities in pictures of this height, in pixels."""
    return MAX_DISPARITY * ASPECT * height


def sample_stereo_scene(rng: np.random.Generator, objects: Objects, photographs: Photographs,
                        height: int) -> StereoScene:
    """A random scene of ``height`` x ``2 * height`` pixels: a floor of photograph, and 1 to 8 objects before it."""
    width, margin = ASPECT * height, int(np.ceil(max_disparity(height)))
    photograph, source = photographs.crop(rng, height, width + margin)
    photograph = add_grain(rng, photograph)
    far = rng.uniform(*FAR_DISPARITY) * width
    floor = np.linspace(far, far + rng.uniform(*FLOOR_SLOPE) * width, SUPERSAMPLING * height)
    layers = _sample_layers(rng, objects, photograph, height, nearest=floor[-1] + 0.01 * width)
    return compose(photograph, to_cells(floor), layers, width, source)


def _sample_layers(rng: np.random.Generator, objects: Objects, photograph: np.ndarray, height: int,
                   nearest: float) -> list[Layer]:
    """Objects back to front; each has a share of the disparities from ``nearest`` on for itself, so none cross."""
    number = int(rng.integers(1, MAX_OBJECTS + 1))
    size = np.multiply((height, ASPECT * height), SUPERSAMPLING)
    canvas = Canvas(enlarge(photograph)[:, :size[1]])
    step = (max_disparity(height) - nearest) / number
    layers: list[Layer] = []
    for order in range(number):
        sprite = objects.sample(rng, int(SUPERSAMPLING * OBJECT_SCALE * height))
        # Half of an object may stand out of the picture on any side.
        top, left = (int(rng.integers(-length // 2, limit - length // 2 + 1))
                     for length, limit in zip(sprite.opacity.shape, size))
        sprite = dataclasses.replace(sprite, top=top, left=left)
        colour = sample_colour(rng, canvas, sprite, [layer.sprite for layer in layers])
        sprite = dataclasses.replace(sprite, colour=add_grain(rng, colour, SUPERSAMPLING))
        canvas.paste(sprite)
        tilt = rng.uniform(-TILT, TILT) * min(step, 0.03 * size[1] / SUPERSAMPLING)
        middle = nearest + step * (order + rng.uniform(TILT / 2, 1 - TILT / 2))
        rows = np.linspace(-0.5, 0.5, sprite.opacity.shape[0])
        layers.append(Layer(sprite, to_cells(middle + tilt * rows)))
    return layers


def compose(photograph: np.ndarray, floor: np.ndarray, layers: list[Layer], width: int,
            source: BackgroundSource) -> StereoScene:
    """Both views of layers given from back to front.

    ``photograph`` is (H, W + margin, 3), of which the left view shows the first ``width`` columns; ``floor`` its
    disparity in cells, (H * SUPERSAMPLING,) integers, at most ``margin * SUPERSAMPLING``.
    """
    fine, cells = enlarge(photograph), width * SUPERSAMPLING
    columns = np.arange(cells) + floor[:, None]
    left, right = Canvas(fine[:, :cells]), Canvas(np.take_along_axis(fine, columns[..., None], axis=1))
    for layer in layers:
        left.paste(layer.sprite)
        right.paste(layer.seen_from_the_right())
    shift = _shift_map(left, floor, layers)
    occluded = _hidden_from_the_right(left.owner, right.owner, shift)
    centre = slice(SUPERSAMPLING // 2, None, SUPERSAMPLING)
    return StereoScene(
        shrink(left.image), shrink(right.image),
        (shift[centre, centre] / SUPERSAMPLING).astype(np.float32), occluded[centre, centre],
        tuple(layer.sprite.number for layer in layers), source)


def _shift_map(view: Canvas, floor: np.ndarray, layers: list[Layer]) -> np.ndarray:
    """Disparity of every cell of the left view, in cells."""
    by_row = np.broadcast_to(floor[:, None], (len(floor), len(layers) + 1)).copy()  # the last one is the photograph's
    for number, layer in enumerate(layers):
        (rows, _), (part, _) = view.overlap(layer.sprite)
        by_row[rows, number] = layer.shift[part]
    return np.take_along_axis(by_row, view.owner.astype(np.int64) % by_row.shape[1], axis=1)


def _hidden_from_the_right(left_owner: np.ndarray, right_owner: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Cells of the left view whose place in the right one shows another layer, or lies outside."""
    column = np.arange(left_owner.shape[1]) - shift
    seen = np.take_along_axis(right_owner, np.maximum(column, 0), axis=1) == left_owner
    return ~seen | (column < 0)


def add_grain(rng: np.random.Generator, picture: np.ndarray, cells: int = 1) -> np.ndarray:
    """A surface (H, W, 3) in [0, 255] with a fine random texture whose grains are ``cells`` wide; float32."""
    shape = tuple(-(-length // cells) for length in picture.shape[:2])
    noise = rng.normal(scale=GRAIN, size=shape).astype(np.float32)
    noise = cv2.resize(noise, None, fx=cells, fy=cells, interpolation=cv2.INTER_LINEAR)
    return np.clip(picture + noise[:picture.shape[0], :picture.shape[1], None], 0, 255).astype(np.float32)


def to_cells(pixels: np.ndarray) -> np.ndarray:
    """Disparities rounded to whole cells."""
    return np.rint(np.asarray(pixels) * SUPERSAMPLING).astype(np.int64)


def enlarge(picture: np.ndarray) -> np.ndarray:
    """A picture on the fine grid, (4 H, 4 W, 3) float32."""
    height, width = picture.shape[:2]
    return cv2.resize(picture.astype(np.float32), (SUPERSAMPLING * width, SUPERSAMPLING * height),
                      interpolation=cv2.INTER_LINEAR)


def shrink(fine: np.ndarray) -> np.ndarray:
    """The mean of the cells of each pixel, (H, W, 3) uint8."""
    rows, columns = (length // SUPERSAMPLING for length in fine.shape[:2])
    mean = fine.reshape(rows, SUPERSAMPLING, columns, SUPERSAMPLING, 3).mean(axis=(1, 3))
    return np.clip(np.rint(mean), 0, 255).astype(np.uint8)
