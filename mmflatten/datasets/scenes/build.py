"""Scenes with a single view, in three layouts: COCO, ADE20K and ImageNet.

::

    images/{training,validation}/000000.png           images of COCO and ADE20K
    annotations/instances_{train,val}.json            COCO: boxes and RLE masks
    annotations/{training,validation}/000000.png      ADE20K: index maps
    crops/{train,val}/{0..9}/000000_00.png            ImageNet: a folder per class, an object per image
    contact_sheet.png  dataset.json
"""
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from pycocotools import mask as coco_mask

from mmflatten.datasets.build import SPLITS, BuildOptions, build

from .digits import DIGITS
from .glyph import tight_window
from .scene import BACKGROUND, FIRST_CLASS, UNLABELLED, sample_scene
from .source import Source

ADE_FOLDERS = {'train': 'training', 'val': 'validation'}  # ADE20K's names of the splits
CROP_MARGIN = 0.15  # on every side, relative to the longer side of the box
TILE, GAP, HEADER = 240, 8, 26  # pixels of the contact sheet
SCENES_PER_SPLIT = 4
COLUMNS = ('scene', 'COCO: boxes, masks, labels', 'ADE20K: index map', 'ImageNet: crops')
# One colour per class, as in the segmentation data set in configs/_base_/datasets.
PALETTE = ((230, 25, 75), (60, 180, 75), (255, 225, 25), (0, 130, 200), (245, 130, 48), (145, 30, 180), (70, 240, 240),
           (240, 50, 230), (210, 245, 60), (250, 190, 212))
INDEX_COLOURS = {UNLABELLED: (255, 255, 255), BACKGROUND: (60, 60, 60), **dict(enumerate(PALETTE, FIRST_CLASS))}


@dataclass(frozen=True)
class SceneOptions(BuildOptions):
    """Number of scenes per split, side of a scene in pixels, and seed."""

    train: int = 1000
    val: int = 200
    size: int = 160
    seed: int = 0


def build_scenes(out: Path, options: SceneOptions, source: Source = DIGITS, force: bool = False,
                 on_image: Callable[[], Any] = lambda: None) -> dict[str, Any]:
    """Write scenes in all layouts and return the manifest. `on_image` is called after each scene.

    The same options give the same bytes, and a scene does not depend on the number of scenes.
    """
    return build(out, f'{source.name} scenes', options, partial(_write_split, source, options),
                 partial(draw_contact_sheet, source), force, on_image)


def sample_scenes(source: Source, options: SceneOptions, split: str, sample: Callable[..., Any],
                  *seeds: int) -> Iterator[tuple[str, Any]]:
    """Yield name and scene for each number of a split; `seeds` are added to the seed of a scene."""
    objects, photographs = source.load_objects(split), source.load_photographs(split)
    for number in range(getattr(options, split)):
        rng = np.random.default_rng([options.seed, SPLITS.index(split), number, *seeds])
        yield f'{number:06d}', sample(rng, objects, photographs, options.size)


def write_png(path: Path, pixels: np.ndarray) -> None:
    """Write (H, W) or (H, W, 3) uint8 RGB; the same pixels give the same bytes."""
    Image.fromarray(pixels).save(path, format='PNG', compress_level=6)


def _write_split(source: Source, options: SceneOptions, root: Path, split: str) -> Iterator[int]:
    image_folder, map_folder = (root / kind / ADE_FOLDERS[split] for kind in ('images', 'annotations'))
    crop_folders = [root / 'crops' / split / name for name in source.folders]
    for folder in (image_folder, map_folder, *crop_folders):
        folder.mkdir(parents=True)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for name, scene in sample_scenes(source, options, split, sample_scene):
        write_png(image_folder / f'{name}.png', scene.picture)
        write_png(map_folder / f'{name}.png', scene.index_map)
        images.append(dict(id=len(images) + 1, file_name=f'{name}.png', height=options.size, width=options.size,
                           background=scene.background,
                           license=source.license_ids.get(scene.background['photograph'], 1)))
        for order, (sprite, mask) in enumerate(zip(scene.sprites, scene.masks)):
            rows, columns = tight_window(mask)
            encoded = coco_mask.encode(np.asfortranarray(mask, dtype=np.uint8))
            annotations.append({
                'id': len(annotations) + 1, 'image_id': len(images), 'category_id': sprite.label + 1,
                'bbox': [columns.start, rows.start, columns.stop - columns.start, rows.stop - rows.start],
                'area': int(mask.sum()), 'iscrowd': 0, source.number: sprite.number,
                'segmentation': dict(size=encoded['size'], counts=encoded['counts'].decode('ascii'))})
            write_png(crop_folders[sprite.label] / f'{name}_{order:02d}.png',
                      scene.picture[crop_window(rows, columns, options.size)])
        yield len(scene.sprites)
    categories = [dict(id=index + 1, name=name, supercategory=source.name) for index, name in enumerate(source.classes)]
    content = dict(info=dict(description=source.info, url='', version='1.0', contributor=''), licenses=source.licenses,
                   categories=categories, images=images, annotations=annotations)
    (root / 'annotations' / f'instances_{split}.json').write_text(
        json.dumps(content, sort_keys=True, separators=(',', ':')) + '\n', encoding='ascii')


def crop_window(rows: slice, columns: slice, size: int) -> tuple[slice, slice]:
    """Return a square window (rows, columns) around a box with a margin, inside an image of `size` pixels."""
    height, width = (part.stop - part.start for part in (rows, columns))
    side = min(size, int(round(max(width, height) * (1 + 2 * CROP_MARGIN))))
    top, left = (min(max(0, part.start + (part.stop - part.start) // 2 - side // 2), size - side)
                 for part in (rows, columns))
    return slice(top, top + side), slice(left, left + side)


def draw_contact_sheet(source: Source, root: Path) -> None:
    """Draw `contact_sheet.png` from the files: a row for each of the first scenes, and a column per layout."""
    header = Image.new('RGB', (len(COLUMNS) * (TILE + GAP) + GAP, HEADER), 'white')
    draw = ImageDraw.Draw(header)
    for column, title in enumerate(COLUMNS):
        draw.text((GAP + column * (TILE + GAP), 6), title, fill='black', font=ImageFont.load_default(14))
    rows = [np.asarray(header)]
    for split in SPLITS:
        coco = json.loads((root / 'annotations' / f'instances_{split}.json').read_text(encoding='ascii'))
        for image in coco['images'][:SCENES_PER_SPLIT]:
            annotations = [item for item in coco['annotations'] if item['image_id'] == image['id']]
            rows.append(_scene_row(source, root, split, image['file_name'], annotations))
    write_png(root / 'contact_sheet.png', np.vstack(rows))


def _scene_row(source: Source, root: Path, split: str, name: str, annotations: list[dict[str, Any]]) -> np.ndarray:
    picture = Image.open(root / 'images' / ADE_FOLDERS[split] / name).convert('RGB')
    index_map = np.asarray(Image.open(root / 'annotations' / ADE_FOLDERS[split] / name))
    colours = np.array([INDEX_COLOURS[value] for value in range(FIRST_CLASS + len(source.classes))], dtype=np.uint8)
    crops = [root / 'crops' / split / source.folders[item['category_id'] - 1] / f'{name[:-4]}_{order:02d}.png'
             for order, item in enumerate(annotations)]
    tiles = (picture.resize((TILE, TILE), Image.Resampling.BICUBIC), _draw_instances(source, picture, annotations),
             Image.fromarray(colours[index_map]).resize((TILE, TILE), Image.Resampling.NEAREST), _draw_crops(crops))
    row = Image.new('RGB', (len(COLUMNS) * (TILE + GAP) + GAP, TILE + GAP), 'white')
    for column, tile in enumerate(tiles):
        row.paste(tile, (GAP + column * (TILE + GAP), 0))
    return np.asarray(row)


def _draw_instances(source: Source, picture: Image.Image, annotations: list[dict[str, Any]]) -> Image.Image:
    """Draw masks, boxes and labels in the colours of their classes on the picture in grey."""
    pixels = np.asarray(picture.convert('L').convert('RGB')).astype(np.float32) * 0.6
    for item in annotations:
        mask = coco_mask.decode(item['segmentation']).astype(bool)
        pixels[mask] = 0.25 * pixels[mask] + 0.75 * np.array(PALETTE[item['category_id'] - 1])
    tile = Image.fromarray(pixels.astype(np.uint8)).resize((TILE, TILE), Image.Resampling.NEAREST)
    draw, scale = ImageDraw.Draw(tile), TILE / picture.width
    for item in annotations:
        x, y, width, height = (scale * value for value in item['bbox'])
        draw.rectangle((x, y, x + width - 1, y + height - 1), outline=PALETTE[item['category_id'] - 1])
        _label(draw, x, y - 15 if y >= 15 else y, source.classes[item['category_id'] - 1])
    return tile


def _draw_crops(paths: Sequence[Path]) -> Image.Image:
    """Draw up to nine crops in a 3 x 3 grid, each with the name of its class folder."""
    tile, side = Image.new('RGB', (TILE, TILE), (235, 235, 235)), TILE // 3
    draw = ImageDraw.Draw(tile)
    for position, path in enumerate(paths):
        left, top = side * (position % 3), side * (position // 3)
        tile.paste(Image.open(path).resize((side - 2, side - 2), Image.Resampling.BICUBIC), (left, top))
        _label(draw, left, top, path.parent.name)
    return tile


def _label(draw: ImageDraw.ImageDraw, x: float, y: float, text: str) -> None:
    """Draw text in white on black, moved inside the tile."""
    font = ImageFont.load_default(13)
    width = 10 if len(text) == 1 else font.getlength(text) + 2
    x = min(max(0, x), TILE - width - 1)
    draw.rectangle((x, y, x + width, y + 14), fill='black')
    draw.text((x + 1, y - 1), text, fill='white', font=font)
