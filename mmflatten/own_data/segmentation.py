"""Segmentation data: a folder of images and a folder of PNG maps whose pixels are class numbers."""
from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mmcv
import numpy as np
from mmengine.config import Config

from mmflatten.checkpoints.rules import shorten
from mmflatten.own_data.data import OwnData, OwnDataError, Request, problems_of
from mmflatten.own_data.pictures import (
    UNREADABLE,
    Picture,
    find_images,
    list_text,
    picture_problems,
    read_pictures,
    size_range,
    split,
    split_folders,
)

IGNORE_INDEX = 255
MAP_SUFFIX = '.png'
LABEL_MAP_PROBLEMS = {
    'image without a label map': (True, f'put NAME{MAP_SUFFIX} of the same name into the folder of --ann'),
    'label map without an image': (False, 'it is not used'),
    'unreadable label map': (True, 'replace it'),
    'label map with colours': (True, 'convert the colours to one grey value per pixel, the class number'),
    'label map size differs from its image': (True, 'both must have the same width and height'),
    'label value without a class': (True, f'number the classes 0, 1, ... without gaps; {IGNORE_INDEX} is ignored'),
}


def read_segmentation(images: Sequence[Path], maps: Sequence[Path], out: Path, val_fraction: float,
                      classes: Sequence[str] | None = None) -> OwnData:
    """Read images and label maps that share names.

    Args:
        images: a folder, possibly with `train` and `val` in it, or one for training and one for validation.
        maps: the same for the label maps.
        classes: names of the values 0, 1, ...; by default read from `classes.txt` in or beside the first folder of
            maps.
    """
    for folder in (*images, *maps):
        if folder.is_file():
            raise OwnDataError(f'{folder}: expected a folder of images or PNG label maps for --task seg, got a file. '
                               'For a COCO file use --task det.')
    images, maps = split_folders(images), split_folders(maps)
    if len(images) != len(maps):
        raise OwnDataError(f'--ann: expected as many folders as in --images ({shorten([*map(str, images)])}), got '
                           f'{len(maps)} ({shorten([*map(str, maps)])}).')
    names = _class_names(maps[0], classes)
    places: dict[str, list[str]] = defaultdict(list)
    pairs = [_pairs(*folders, places) for folders in zip(images, maps)]
    pictures = read_pictures(path for part in pairs for path in part)
    values = _check_maps({path: label_map for part in pairs for path, label_map in part.items()}, pictures, names,
                         places)
    sides = [list(part) for part in pairs] if len(pairs) == 2 else split(pictures, val_fraction)
    suffix = _single_suffix(pictures)
    arguments, lists = [], {}
    for name, side, image, label_map in zip(('train', 'val'), sides, images * 2, maps * 2):
        image, label_map = (images[-1], maps[-1]) if name == 'val' else (image, label_map)
        listed = out.with_name(f'{out.stem}_{name}.txt')
        lists[listed] = list_text(path.relative_to(image).with_suffix('').as_posix() for path in side)
        arguments.append(dict(ann_file=listed, data_prefix=dict(img_path=image, seg_map_path=label_map),
                              img_suffix=suffix, seg_map_suffix=MAP_SUFFIX, reduce_zero_label=False))
    facts = [f'image sizes: {size_range(pictures)}', *_pixel_fractions(values, names)]
    return OwnData('BaseSegDataset', *arguments, tuple(map(len, sides)), names, facts,
                   problems_of(places, LABEL_MAP_PROBLEMS) + picture_problems(pictures, *sides), lists)


def _class_names(maps: Path, classes: Sequence[str] | None) -> tuple[str, ...]:
    if classes:
        return tuple(classes)
    for file in (maps / 'classes.txt', maps.parent / 'classes.txt'):
        if file.is_file():
            return tuple(line.strip() for line in file.read_text(encoding='utf-8').splitlines() if line.strip())
    raise OwnDataError(f'--classes is missing: name the label values 0, 1, ..., or write one name per line into '
                       f'{maps / "classes.txt"}.')


def _pairs(images: Path, maps: Path, places: dict[str, list[str]]) -> dict[Path, Path]:
    """Pair images with their label maps."""
    expected = {path: maps / path.relative_to(images).with_suffix(MAP_SUFFIX) for path in find_images(images)}
    label_maps = {path for path in find_images(maps) if path.suffix.lower() == MAP_SUFFIX}
    if not label_maps & {*expected.values()}:
        raise OwnDataError(f'--ann {maps}: no label map matches an image in {images}. An image a/NAME.jpg needs '
                           f'a/NAME{MAP_SUFFIX}.')
    places['image without a label map'] += [str(path) for path, other in expected.items() if other not in label_maps]
    places['label map without an image'] += sorted(map(str, label_maps - {*expected.values()}))
    return {path: other for path, other in expected.items() if other in label_maps}


def _single_suffix(pictures: Mapping[Path, Picture]) -> str:
    counts = Counter(path.suffix for path in pictures)
    if len(counts) != 1:
        text = ', '.join(f'{count} {suffix}' for suffix, count in counts.items())
        raise OwnDataError(f'--images: expected one file suffix, which mmseg requires, got {text}. Convert or rename '
                           'the images.')
    return next(iter(counts))


def _check_maps(pairs: Mapping[Path, Path], pictures: Mapping[Path, Picture], names: Sequence[str],
                places: dict[str, list[str]]) -> Counter:
    """Count the pixels of each value over all maps."""
    total: Counter = Counter()
    with ThreadPoolExecutor() as pool:
        for (image, label_map), result in zip(pairs.items(), pool.map(_count, pairs.values())):
            path = str(label_map)
            if result is None:
                places['unreadable label map'].append(path)
                continue
            shape, counts = result
            if len(shape) != 2:
                places['label map with colours'].append(path)
                continue
            if pictures[image].size not in (None, shape[::-1]):
                places['label map size differs from its image'].append(path)
            total.update(counts)
            unknown = [value for value in counts if value >= len(names) and value != IGNORE_INDEX]
            if unknown:
                places['label value without a class'].append(f'{shorten([*map(str, unknown)], 5)} in {path}')
    return total


def _count(path: Path) -> tuple[tuple[int, ...], dict[int, int]] | None:
    """Read a label map like mmseg; return its shape and the pixels per value, or None if it is unreadable."""
    try:
        labels = mmcv.imfrombytes(path.read_bytes(), flag='unchanged', backend='pillow')
    except UNREADABLE:
        return None
    values, counts = np.unique(labels, return_counts=True)
    return labels.shape, dict(zip(values.astype(int).tolist(), counts.tolist()))


def _pixel_fractions(values: Counter, names: Sequence[str]) -> list[str]:
    pixels = max(values.total(), 1)
    lines = []
    for value, name in enumerate(names):
        line = f'class {name} (value {value}): {values[value] / pixels:.1%} of the pixels'
        lines.append(line if values[value] else f'{line}; it cannot be learned')
    if values[IGNORE_INDEX]:
        lines.append(f'ignored ({IGNORE_INDEX}): {values[IGNORE_INDEX] / pixels:.1%} of the pixels')
    return lines


def read(request: Request, base: Config, out: Path) -> OwnData:
    """Read the data that `mmflatten init` was given."""
    return read_segmentation(request.images, request.ann, out, request.val_share, request.classes)
