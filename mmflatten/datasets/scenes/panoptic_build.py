"""Panoptic scenes in COCO's layout: objects are things, the textures behind them stuff.

::

    images/{training,validation}/000000.png         images
    annotations/panoptic_{train,val}.json           categories and segments
    annotations/panoptic_{train,val}/000000.png     segment of each pixel, 0 for the soft rims
    dataset.json
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mmflatten.datasets.build import build
from mmflatten.datasets.scenes.build import ADE_FOLDERS, SceneOptions, sample_scenes, write_png
from mmflatten.datasets.scenes.canvas import Canvas, Sprite
from mmflatten.datasets.scenes.digits import DIGITS
from mmflatten.datasets.scenes.glyph import tight_window
from mmflatten.datasets.scenes.scene import BACKGROUND_GAIN, place_objects, sample_background
from mmflatten.datasets.scenes.source import Objects, Photographs, Source
from mmflatten.datasets.scenes.textures import STUFF_CLASSES, sample_stuff
from mmflatten.structures.segments import VOID, segment_colours

SEGMENTS_PER_CATEGORY = 1000  # the number of a segment is category * 1000 + order


@dataclass(frozen=True)
class PanopticSceneOptions(SceneOptions):
    """Number of scenes per split, side of a scene in pixels, and seed."""

    # distinguishes these scenes from those without stuff
    stuff: int = field(default=len(STUFF_CLASSES), init=False)


@dataclass(frozen=True, eq=False)
class PanopticScene:
    """A picture and its segments.

    Attributes:
        picture: (H, W, 3) uint8 RGB.
        sprites: back to front.
        masks: visible pixels of the sprites, (n, H, W) bool.
        stuff: label of the background in `STUFF_CLASSES`, (H, W), -1 where a sprite or its soft
            rim is.
        background: `photograph` and `box` of the background.
    """

    picture: np.ndarray
    sprites: tuple[Sprite, ...]
    masks: np.ndarray
    stuff: np.ndarray
    background: dict[str, Any]


def sample_panoptic_scene(
    rng: np.random.Generator, objects: Objects, photographs: Photographs, size: int
) -> PanopticScene:
    """Sample a square scene of `size` pixels.

    Raises:
        ValueError: `size` is not a multiple of the objects' `reference`.
    """
    photograph, source = sample_background(rng, objects, photographs, size)
    photograph = photograph * rng.uniform(*BACKGROUND_GAIN)
    background, stuff = sample_stuff(rng, photograph, objects.reference or size)
    canvas = Canvas(background)
    sprites = place_objects(rng, canvas, objects, size)
    return PanopticScene(
        picture=canvas.picture(),
        sprites=tuple(sprites),
        masks=canvas.masks(),
        stuff=np.where(canvas.rim | (canvas.owner >= 0), -1, stuff),
        background=source,
    )


def build_panoptic_scenes(
    out: Path,
    options: PanopticSceneOptions,
    source: Source = DIGITS,
    force: bool = False,
    on_image: Callable[[], Any] = lambda: None,
) -> dict[str, Any]:
    """Write panoptic scenes and return the manifest; see `build_scenes`."""
    return build(
        out,
        kind=f'{source.name} scenes',
        options=options,
        write_split=partial(_write_split, source, options),
        force=force,
        on_image=on_image,
    )


def _write_split(
    source: Source, options: PanopticSceneOptions, root: Path, split: str
) -> Iterator[int]:
    image_folder = root / 'images' / ADE_FOLDERS[split]
    segment_folder = root / 'annotations' / f'panoptic_{split}'
    for folder in (image_folder, segment_folder):
        folder.mkdir(parents=True)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    # `stuff` in the seed gives other scenes than without stuff.
    scenes = sample_scenes(source, options, split, sample_panoptic_scene, options.stuff)
    for name, scene in scenes:
        ids, segments = number_segments(scene, source)
        write_png(image_folder / f'{name}.png', scene.picture)
        write_png(segment_folder / f'{name}.png', segment_colours(ids))
        image = dict(
            id=len(images) + 1,
            file_name=f'{name}.png',
            height=options.size,
            width=options.size,
            background=scene.background,
            license=source.license_ids.get(scene.background['photograph'], 1),
        )
        images.append(image)
        annotations.append(
            dict(image_id=image['id'], file_name=f'{name}.png', segments_info=segments)
        )
        yield len(scene.sprites)
    content = dict(
        info=dict(description=source.info, url='', version='1.0', contributor=''),
        licenses=source.licenses,
        categories=_categories(source),
        images=images,
        annotations=annotations,
    )
    text = json.dumps(content, sort_keys=True, separators=(',', ':')) + '\n'
    (root / 'annotations' / f'panoptic_{split}.json').write_text(text, encoding='ascii')


def number_segments(
    scene: PanopticScene, source: Source
) -> tuple[np.ndarray, list[dict[str, Any]]]:
    """Return the segment of each pixel (H, W) and COCO's `segments_info`."""
    ids = np.full(scene.stuff.shape, VOID, dtype=np.int32)
    segments = []
    for order, (sprite, mask) in enumerate(zip(scene.sprites, scene.masks)):
        segment = _segment(mask, category=sprite.label + 1, order=order)
        segments.append(segment | {source.number: sprite.number})
        ids[mask] = segment['id']
    for label in np.unique(scene.stuff[scene.stuff >= 0]).tolist():
        mask = scene.stuff == label
        segment = _segment(mask, category=len(source.classes) + label + 1, order=0)
        segments.append(segment)
        ids[mask] = segment['id']
    return ids, segments


def _segment(mask: np.ndarray, category: int, order: int) -> dict[str, Any]:
    rows, columns = tight_window(mask)
    return dict(
        id=category * SEGMENTS_PER_CATEGORY + order,
        category_id=category,
        iscrowd=0,
        bbox=[columns.start, rows.start, columns.stop - columns.start, rows.stop - rows.start],
        area=int(mask.sum()),
    )


def _categories(source: Source) -> list[dict[str, Any]]:
    """Return COCO's categories: the objects, then the stuff."""
    categories = []
    for name in source.classes:
        categories.append(dict(name=name, supercategory=source.name, isthing=1))
    for name in STUFF_CLASSES:
        categories.append(dict(name=name, supercategory='background', isthing=0))
    for number, category in enumerate(categories, 1):
        category['id'] = number
    return categories
