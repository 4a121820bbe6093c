"""Scenes with a single view, in three layouts: COCO, ADE20K and ImageNet.

::

    images/{training,validation}/000000.png         images of COCO and ADE20K
    annotations/instances_{train,val}.json          COCO: boxes and RLE masks
    annotations/{training,validation}/000000.png    ADE20K: index maps
    crops/{train,val}/{0..9}/000000_00.png          ImageNet: a folder per class, one object each
    dataset.json
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from pycocotools import mask as coco_mask

from mmflatten.datasets.build import SPLITS, BuildOptions, build
from mmflatten.datasets.scenes.canvas import Sprite
from mmflatten.datasets.scenes.digits import DIGITS
from mmflatten.datasets.scenes.glyph import tight_window
from mmflatten.datasets.scenes.scene import sample_scene
from mmflatten.datasets.scenes.source import Source

ADE_FOLDERS = {'train': 'training', 'val': 'validation'}  # ADE20K's names of the splits
CROP_MARGIN = 0.15  # on every side, relative to the longer side of the box


@dataclass(frozen=True)
class SceneOptions(BuildOptions):
    """Number of scenes per split, side of a scene in pixels, and seed."""

    train: int = 1000
    val: int = 200
    size: int = 160
    seed: int = 0


def build_scenes(
    out: Path,
    options: SceneOptions,
    source: Source = DIGITS,
    force: bool = False,
    on_image: Callable[[], Any] = lambda: None,
) -> dict[str, Any]:
    """Write scenes in all layouts and return the manifest. `on_image` is called after each scene.

    The same options give the same bytes, and a scene does not depend on the number of scenes.
    """
    return build(
        out,
        kind=f'{source.name} scenes',
        options=options,
        write_split=partial(_write_split, source, options),
        force=force,
        on_image=on_image,
    )


def sample_scenes(
    source: Source, options: SceneOptions, split: str, sample: Callable[..., Any], *seeds: int
) -> Iterator[tuple[str, Any]]:
    """Yield name and scene for each number of a split; `seeds` are added to the seed of a scene."""
    objects, photographs = source.load_objects(split), source.load_photographs(split)
    for number in range(getattr(options, split)):
        rng = np.random.default_rng([options.seed, SPLITS.index(split), number, *seeds])
        yield f'{number:06d}', sample(rng, objects, photographs, options.size)


def write_png(path: Path, pixels: np.ndarray) -> None:
    """Write (H, W) or (H, W, 3) uint8 RGB; the same pixels give the same bytes."""
    Image.fromarray(pixels).save(path, format='PNG', compress_level=6)


def _write_split(source: Source, options: SceneOptions, root: Path, split: str) -> Iterator[int]:
    image_folder = root / 'images' / ADE_FOLDERS[split]
    map_folder = root / 'annotations' / ADE_FOLDERS[split]
    crop_folders = [root / 'crops' / split / name for name in source.folders]
    for folder in (image_folder, map_folder, *crop_folders):
        folder.mkdir(parents=True)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for name, scene in sample_scenes(source, options, split, sample_scene):
        write_png(image_folder / f'{name}.png', scene.picture)
        write_png(map_folder / f'{name}.png', scene.index_map)
        image = dict(
            id=len(images) + 1,
            file_name=f'{name}.png',
            height=options.size,
            width=options.size,
            background=scene.background,
            license=source.license_ids.get(scene.background['photograph'], 1),
        )
        images.append(image)
        for order, (sprite, mask) in enumerate(zip(scene.sprites, scene.masks)):
            rows, columns = tight_window(mask)
            numbers = {
                'id': len(annotations) + 1,
                'image_id': image['id'],
                source.number: sprite.number,
            }
            annotations.append(numbers | _annotation(sprite, mask, (rows, columns)))
            crop = scene.picture[crop_window(rows, columns, options.size)]
            write_png(crop_folders[sprite.label] / f'{name}_{order:02d}.png', crop)
        yield len(scene.sprites)
    categories = []
    for number, name in enumerate(source.classes, 1):
        categories.append(dict(id=number, name=name, supercategory=source.name))
    content = dict(
        info=dict(description=source.info, url='', version='1.0', contributor=''),
        licenses=source.licenses,
        categories=categories,
        images=images,
        annotations=annotations,
    )
    text = json.dumps(content, sort_keys=True, separators=(',', ':')) + '\n'
    (root / 'annotations' / f'instances_{split}.json').write_text(text, encoding='ascii')


def _annotation(sprite: Sprite, mask: np.ndarray, window: tuple[slice, slice]) -> dict[str, Any]:
    """Return the fields of a COCO annotation without its ids; `window` is that of the mask."""
    rows, columns = window
    encoded = coco_mask.encode(np.asfortranarray(mask, dtype=np.uint8))
    return dict(
        category_id=sprite.label + 1,
        bbox=[columns.start, rows.start, columns.stop - columns.start, rows.stop - rows.start],
        area=int(mask.sum()),
        iscrowd=0,
        segmentation=dict(size=encoded['size'], counts=encoded['counts'].decode('ascii')),
    )


def crop_window(rows: slice, columns: slice, size: int) -> tuple[slice, slice]:
    """Return a square window (rows, columns) around a box with a margin, inside an image of `size`
    pixels.
    """
    height, width = rows.stop - rows.start, columns.stop - columns.start
    side = min(size, int(round(max(width, height) * (1 + 2 * CROP_MARGIN))))
    return _centred(rows, side, size), _centred(columns, side, size)


def _centred(part: slice, side: int, size: int) -> slice:
    """Return `side` pixels around the middle of a part, moved inside an image of `size` pixels."""
    middle = part.start + (part.stop - part.start) // 2
    start = min(max(0, middle - side // 2), size - side)
    return slice(start, start + side)
