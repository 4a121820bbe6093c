"""Stereo pairs of layered scenes with exact disparity and occlusion, in the layout of SceneFlow.

::

    frames_cleanpass/{TRAIN,TEST}/A/0000/{left,right}/000000.png
    disparity/{TRAIN,TEST}/A/0000/left/000000.pfm               in pixels
    disparity_occlusions/{TRAIN,TEST}/A/0000/left/000000.png    255: hidden from the right camera
    scenes_{TRAIN,TEST}.json                                    objects and photographs of scenes
    dataset.json

Every layer, the photograph or an object, has one disparity per row, a multiple of
`1 / SUPERSAMPLING` pixels. A scene is composed on a grid finer by that factor, where the right view
is the left view with the rows of its layers moved by whole cells, without interpolation. Both views
are then averaged over the cells of a pixel, like a sensor.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from mmflatten.datasets.build import build
from mmflatten.datasets.scenes.build import SceneOptions, sample_scenes, write_png
from mmflatten.datasets.scenes.canvas import Canvas, Sprite
from mmflatten.datasets.scenes.digits import DIGITS
from mmflatten.datasets.scenes.scene import MAX_OBJECTS, sample_colour
from mmflatten.datasets.scenes.source import Objects, Photographs, Source
from mmflatten.datasets.stereo.files import write_pfm

SCENEFLOW_FOLDERS = {'train': 'TRAIN', 'val': 'TEST'}  # SceneFlow's names of the splits
SEQUENCE = 'A/0000'
SUPERSAMPLING = 4  # cells per pixel, in both directions
ASPECT = 2  # width / height
DISPARITY_LIMIT = 0.2  # relative to the width
# The photograph recedes like a floor: its disparity grows from the first row to the last.
FAR_DISPARITY = (0.01, 0.04)  # at the first row, relative to the width
FLOOR_SLOPE = (0.0, 0.04)  # added up to the last row, relative to the width
OBJECT_SCALE = 1.4  # relative to scenes with a single view
GRAIN = 14.0  # standard deviation in grey levels; without texture disparity is ambiguous
TILT = 0.4  # largest change of disparity over an object, relative to its disparity interval


@dataclass(frozen=True)
class StereoSceneOptions(SceneOptions):
    """Number of pairs per split, height of an image in pixels (the width is twice that), and
    seed.
    """

    train: int = 400
    val: int = 80
    size: int = 96
    # distinguishes these scenes from those with a single view
    views: int = field(default=2, init=False)


@dataclass(frozen=True, eq=False)
class StereoScene:
    """A rectified pair with ground truth for the left image.

    Attributes:
        left, right: (H, W, 3) uint8 RGB.
        disparity: (H, W) float32 in pixels, at the centre of each pixel.
        occluded: (H, W) bool, True for points that are hidden in the right image or lie outside of
            it.
        numbers: numbers of the objects in their source, farthest first.
        background: `photograph` and `box` of the background.
    """

    left: np.ndarray
    right: np.ndarray
    disparity: np.ndarray
    occluded: np.ndarray
    numbers: tuple[int, ...]
    background: dict[str, Any]


@dataclass(frozen=True, eq=False)
class SceneLayer:
    """An object on the fine grid and its disparity per row in cells, (h,) integers."""

    sprite: Sprite
    shift: np.ndarray

    def seen_from_the_right(self) -> Sprite:
        """Return the sprite with each row moved to the left by its shift."""
        rows, columns = self.sprite.opacity.shape
        largest = int(self.shift.max())
        opacity = np.zeros((rows, columns + largest - int(self.shift.min())), dtype=np.float32)
        colour = np.zeros((*opacity.shape, 3), dtype=np.float32)
        for row, start in enumerate(largest - self.shift):
            opacity[row, start : start + columns] = self.sprite.opacity[row]
            colour[row, start : start + columns] = self.sprite.colour[row]
        return replace(self.sprite, opacity=opacity, colour=colour, left=self.sprite.left - largest)


def max_disparity(height: int) -> float:
    """Return the upper bound of the disparity for images of this height, in pixels."""
    return DISPARITY_LIMIT * ASPECT * height


def sample_stereo_scene(
    rng: np.random.Generator, objects: Objects, photographs: Photographs, height: int
) -> StereoScene:
    """Sample a scene of `height` x `2 * height` pixels: 1 to 8 objects before a photograph."""
    width = ASPECT * height
    margin = int(np.ceil(max_disparity(height)))
    photograph, background = photographs.crop(rng, height, width + margin)
    photograph = add_grain(rng, photograph)
    far = rng.uniform(*FAR_DISPARITY) * width
    floor = np.linspace(far, far + rng.uniform(*FLOOR_SLOPE) * width, SUPERSAMPLING * height)
    layers = _sample_layers(rng, objects, photograph, height, nearest=floor[-1] + 0.01 * width)
    return compose(
        photograph, floor=to_cells(floor), layers=layers, width=width, background=background
    )


def _sample_layers(
    rng: np.random.Generator, objects: Objects, photograph: np.ndarray, height: int, nearest: float
) -> list[SceneLayer]:
    """Sample objects back to front with disjoint intervals of disparity above `nearest`, so that
    none intersect.
    """
    number = int(rng.integers(1, MAX_OBJECTS + 1))
    size = np.multiply((height, ASPECT * height), SUPERSAMPLING)
    canvas = Canvas(enlarge(photograph)[:, : size[1]])
    step = (max_disparity(height) - nearest) / number
    layers: list[SceneLayer] = []
    for order in range(number):
        sprite = objects.sample(rng, int(SUPERSAMPLING * OBJECT_SCALE * height))
        # Up to half of an object may lie outside of the image.
        corner = []
        for length, limit in zip(sprite.opacity.shape, size):
            corner.append(int(rng.integers(-length // 2, limit - length // 2 + 1)))
        sprite = replace(sprite, top=corner[0], left=corner[1])
        colour = sample_colour(rng, canvas, sprite, [layer.sprite for layer in layers])
        sprite = replace(sprite, colour=add_grain(rng, colour, SUPERSAMPLING))
        canvas.paste(sprite)
        tilt = rng.uniform(-TILT, TILT) * min(step, 0.03 * size[1] / SUPERSAMPLING)
        middle = nearest + step * (order + rng.uniform(TILT / 2, 1 - TILT / 2))
        rows = np.linspace(-0.5, 0.5, sprite.opacity.shape[0])
        layers.append(SceneLayer(sprite, to_cells(middle + tilt * rows)))
    return layers


def compose(
    photograph: np.ndarray,
    floor: np.ndarray,
    layers: list[SceneLayer],
    width: int,
    background: dict[str, Any],
) -> StereoScene:
    """Compose both views.

    Args:
        photograph: (H, W + margin, 3). The left view shows the first `width` columns.
        floor: disparity of the photograph per row in cells, (H * SUPERSAMPLING,) integers, at most
            `margin * SUPERSAMPLING`.
        layers: back to front.
    """
    fine = enlarge(photograph)
    cells = width * SUPERSAMPLING
    columns = np.arange(cells) + floor[:, None]
    left = Canvas(fine[:, :cells])
    right = Canvas(np.take_along_axis(fine, columns[..., None], axis=1))
    # disparity of each layer per row; the photograph is the last
    shifts = np.repeat(floor[:, None], len(layers) + 1, axis=1)
    for number, layer in enumerate(layers):
        left.paste(layer.sprite)
        right.paste(layer.seen_from_the_right())
        (rows, _), (part, _) = left.overlap(layer.sprite)
        shifts[rows, number] = layer.shift[part]
    shift = np.take_along_axis(shifts, left.owner.astype(np.int64) % shifts.shape[1], axis=1)

    # A point is seen from the right if the right view shows the same layer there.
    column = np.arange(cells) - shift
    owner = np.take_along_axis(right.owner, np.maximum(column, 0), axis=1)
    seen = (column >= 0) & (owner == left.owner)
    centre = slice(SUPERSAMPLING // 2, None, SUPERSAMPLING)
    return StereoScene(
        left=shrink(left.image),
        right=shrink(right.image),
        disparity=(shift[centre, centre] / SUPERSAMPLING).astype(np.float32),
        occluded=~seen[centre, centre],
        numbers=tuple(layer.sprite.number for layer in layers),
        background=background,
    )


def add_grain(rng: np.random.Generator, picture: np.ndarray, cells: int = 1) -> np.ndarray:
    """Add random texture with grains of `cells` pixels to a surface (H, W, 3) in [0, 255];
    float32.
    """
    height, width = picture.shape[:2]
    shape = -(-height // cells), -(-width // cells)
    noise = rng.normal(scale=GRAIN, size=shape).astype(np.float32)
    noise = cv2.resize(noise, None, fx=cells, fy=cells, interpolation=cv2.INTER_LINEAR)
    grained = picture + noise[:height, :width, None]
    return np.clip(grained, 0, 255).astype(np.float32)


def to_cells(pixels: np.ndarray) -> np.ndarray:
    """Round disparities in pixels to whole cells."""
    return np.rint(np.asarray(pixels) * SUPERSAMPLING).astype(np.int64)


def enlarge(picture: np.ndarray) -> np.ndarray:
    """Enlarge an image to the fine grid, (4 H, 4 W, 3) float32."""
    return cv2.resize(
        picture.astype(np.float32),
        None,
        fx=SUPERSAMPLING,
        fy=SUPERSAMPLING,
        interpolation=cv2.INTER_LINEAR,
    )


def shrink(fine: np.ndarray) -> np.ndarray:
    """Average the cells of each pixel, (H, W, 3) uint8."""
    rows, columns = fine.shape[0] // SUPERSAMPLING, fine.shape[1] // SUPERSAMPLING
    mean = fine.reshape(rows, SUPERSAMPLING, columns, SUPERSAMPLING, 3).mean(axis=(1, 3))
    return np.clip(np.rint(mean), 0, 255).astype(np.uint8)


def build_stereo_scenes(
    out: Path,
    options: StereoSceneOptions,
    source: Source = DIGITS,
    force: bool = False,
    on_image: Callable[[], Any] = lambda: None,
) -> dict[str, Any]:
    """Write stereo pairs and return the manifest; see `build_scenes`."""
    return build(
        out,
        kind=f'{source.name} scenes',
        options=options,
        write_split=partial(_write_split, source, options),
        force=force,
        on_image=on_image,
    )


def _write_split(
    source: Source, options: StereoSceneOptions, root: Path, split: str
) -> Iterator[int]:
    part = Path(SCENEFLOW_FOLDERS[split], SEQUENCE)
    left = root / 'frames_cleanpass' / part / 'left'
    right = root / 'frames_cleanpass' / part / 'right'
    disparity = root / 'disparity' / part / 'left'
    occlusion = root / 'disparity_occlusions' / part / 'left'
    for folder in (left, right, disparity, occlusion):
        folder.mkdir(parents=True)
    scenes = []
    # `views` in the seed gives other scenes than with a single view.
    for name, scene in sample_scenes(source, options, split, sample_stereo_scene, options.views):
        write_png(left / f'{name}.png', scene.left)
        write_png(right / f'{name}.png', scene.right)
        write_pfm(disparity / f'{name}.pfm', scene.disparity)
        write_png(occlusion / f'{name}.png', scene.occluded.astype(np.uint8) * 255)
        scenes.append(
            {'name': name, f'{source.number}s': scene.numbers, 'background': scene.background}
        )
        yield len(scene.numbers)
    text = json.dumps(scenes, sort_keys=True, separators=(',', ':')) + '\n'
    (root / f'scenes_{SCENEFLOW_FOLDERS[split]}.json').write_text(text, encoding='ascii')
