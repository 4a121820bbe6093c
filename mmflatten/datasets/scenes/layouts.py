"""Writing scenes in three layouts: COCO, ADE20K and ImageNet.

::

    images/{training,validation}/000000.png           images of COCO and ADE20K
    annotations/instances_{train,val}.json            COCO: boxes and RLE masks
    annotations/{training,validation}/000000.png      ADE20K: index maps
    crops/{train,val}/{0..9}/000000_00.png            ImageNet: a folder per class, an object per image
"""
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from pycocotools import mask as coco_mask

from .canvas import Sprite
from .scene import Scene
from .source import Source

ADE_FOLDERS = {'train': 'training', 'val': 'validation'}  # ADE20K's names of the splits
CROP_MARGIN = 0.15  # on every side, relative to the longer side of the box


def write_png(path: Path, pixels: np.ndarray) -> None:
    """Write (H, W) or (H, W, 3) uint8 RGB; the same pixels give the same bytes."""
    Image.fromarray(pixels).save(path, format='PNG', compress_level=6)


def mask_box(mask: np.ndarray) -> tuple[int, int, int, int]:
    """Return the tight box (x, y, width, height) of a non-empty mask (H, W)."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return (int(columns[0]), int(rows[0]), int(columns[-1] - columns[0] + 1), int(rows[-1] - rows[0] + 1))


def crop_window(box: tuple[int, int, int, int], size: int) -> tuple[slice, slice]:
    """Return a square window (rows, columns) around a box with a margin, inside an image of `size` pixels."""
    x, y, width, height = box
    side = min(size, int(round(max(width, height) * (1 + 2 * CROP_MARGIN))))
    top, left = (min(max(0, start + length // 2 - side // 2), size - side)
                 for start, length in ((y, height), (x, width)))
    return slice(top, top + side), slice(left, left + side)


class SplitWriter:
    """Writer of one split below `root` in all layouts. `close` writes the COCO file."""

    def __init__(self, root: Path, split: str, source: Source) -> None:
        self.root, self.split, self.source = root, split, source
        self.image_dir = root / 'images' / ADE_FOLDERS[split]
        self.index_dir = root / 'annotations' / ADE_FOLDERS[split]
        self.crop_dir = root / 'crops' / split
        for folder in (self.image_dir, self.index_dir, *(self.crop_dir / name for name in source.folders)):
            folder.mkdir(parents=True)
        self.images: list[dict[str, Any]] = []
        self.annotations: list[dict[str, Any]] = []

    def add(self, scene: Scene) -> None:
        """Write the image, index map and crops of a scene, and collect its annotations."""
        number = len(self.images)
        name = f'{number:06d}.png'
        height, width = scene.index_map.shape
        write_png(self.image_dir / name, scene.picture)
        write_png(self.index_dir / name, scene.index_map)
        self.images.append(
            dict(
                id=number + 1,
                file_name=name,
                height=height,
                width=width,
                license=self.source.license_ids.get(scene.background.photograph, 1),
                background=dict(photograph=scene.background.photograph, box=list(scene.background.box))))
        for order, (sprite, mask) in enumerate(zip(scene.sprites, scene.masks)):
            annotation = self._annotation(sprite, mask)
            self.annotations.append(annotation)
            crop = scene.picture[crop_window(annotation['bbox'], width)]
            write_png(self.crop_dir / self.source.folders[sprite.label] / f'{number:06d}_{order:02d}.png', crop)

    def _annotation(self, sprite: Sprite, mask: np.ndarray) -> dict[str, Any]:
        encoded = coco_mask.encode(np.asfortranarray(mask, dtype=np.uint8))
        return dict(
            id=len(self.annotations) + 1,
            image_id=len(self.images),
            category_id=sprite.label + 1,
            bbox=list(mask_box(mask)),
            area=int(mask.sum()),
            iscrowd=0,
            segmentation=dict(size=encoded['size'], counts=encoded['counts'].decode('ascii')),
            **{self.source.number: sprite.number})

    def close(self) -> None:
        """Write `annotations/instances_{split}.json` with category ids 1 to 10."""
        categories = [dict(id=index + 1, name=name, supercategory=self.source.name)
                      for index, name in enumerate(self.source.classes)]
        content = dict(
            info=dict(description=self.source.info, url='', version='1.0', contributor=''),
            licenses=self.source.licenses,
            categories=categories,
            images=self.images,
            annotations=self.annotations)
        path = self.root / 'annotations' / f'instances_{self.split}.json'
        path.write_text(json.dumps(content, sort_keys=True, separators=(',', ':')) + '\n', encoding='ascii')
