"""Contact sheet of scenes, instances, index maps and crops, read back from the files."""
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from pycocotools import mask as coco_mask

from mmflatten.datasets.build import SPLITS

from .layouts import ADE_FOLDERS, write_png
from .scene import BACKGROUND, FIRST_CLASS, UNLABELLED
from .source import Source

TILE, GAP, HEADER = 240, 8, 26
SCENES_PER_SPLIT = 4
COLUMNS = ('scene', 'COCO: boxes, masks, labels', 'ADE20K: index map', 'ImageNet: crops')

# One colour per class, as in the segmentation data set in configs/_base_/datasets.
PALETTE = ((230, 25, 75), (60, 180, 75), (255, 225, 25), (0, 130, 200), (245, 130, 48), (145, 30, 180), (70, 240, 240),
           (240, 50, 230), (210, 245, 60), (250, 190, 212))
INDEX_COLOURS = {UNLABELLED: (255, 255, 255), BACKGROUND: (60, 60, 60)}
INDEX_COLOURS.update({FIRST_CLASS + label: colour for label, colour in enumerate(PALETTE)})


def draw_contact_sheet(source: Source, root: Path) -> None:
    """Write `contact_sheet.png`: a row per scene and a column per layout, for the first scenes of both splits."""
    rows = [_header()]
    for split in SPLITS:
        coco = json.loads((root / 'annotations' / f'instances_{split}.json').read_text(encoding='ascii'))
        for image in coco['images'][:SCENES_PER_SPLIT]:
            annotations = [item for item in coco['annotations'] if item['image_id'] == image['id']]
            rows.append(_scene_row(source, root, split, image['file_name'], annotations))
    write_png(root / 'contact_sheet.png', np.vstack(rows))


def _header() -> np.ndarray:
    sheet = Image.new('RGB', (len(COLUMNS) * (TILE + GAP) + GAP, HEADER), 'white')
    draw = ImageDraw.Draw(sheet)
    for column, title in enumerate(COLUMNS):
        draw.text((GAP + column * (TILE + GAP), 6), title, fill='black', font=ImageFont.load_default(14))
    return np.asarray(sheet)


def _scene_row(source: Source, root: Path, split: str, name: str,
               annotations: list[dict[str, Any]]) -> np.ndarray:
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


def _draw_crops(paths: list[Path]) -> Image.Image:
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
