"""Segmentation: a folder of images and one of PNG maps, whose pixels are numbers of classes."""
from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mmcv
import numpy as np

from mmflatten.checkpoints.rules import shorten
from mmflatten.own_data.data import OwnData, OwnDataError, problems_of
from mmflatten.own_data.pictures import (
    UNREADABLE,
    Picture,
    find_images,
    list_text,
    picture_problems,
    read_pictures,
    sizes_found,
    split,
)

IGNORED = 255
MAP_SUFFIX = '.png'
KINDS = {
    'image without a label map': (True, f'put NAME{MAP_SUFFIX} of the same name into the folder of --ann'),
    'label map without an image': (False, 'it is not used'),
    'label map that cannot be read': (True, 'replace it'),
    'label map with colours': (True, 'one grey value a pixel is the number of its class; convert the colours'),
    'label map of another size than its image': (True, 'both must have the same pixels'),
    'label value without a class': (True, f'number the classes 0, 1, ... without gaps; {IGNORED} is ignored'),
}


def read_segmentation(images: Sequence[Path], maps: Sequence[Path], out: Path, share: float,
                      classes: Sequence[str] | None = None) -> OwnData:
    """Images and label maps that share their names.

    Args:
        images: a folder, or one for training and one for validation; a folder with `train` and `val` in it is two.
        maps: the same for the label maps.
        classes: names of the values 0, 1, ...; read from `classes.txt` beside or in the first folder of maps where
            not given.
    """
    images, maps = _parts(images), _parts(maps)
    if len(images) != len(maps):
        raise OwnDataError(f'--images has {len(images)} folders ({shorten([*map(str, images)])}) and --ann {len(maps)} '
                           f'({shorten([*map(str, maps)])}); give one each, or training and validation each')
    names = _class_names(maps[0], classes)
    places: dict[str, list[str]] = defaultdict(list)
    pairs = [_pairs(*folders, places) for folders in zip(images, maps)]
    pictures = read_pictures(path for part in pairs for path in part)
    values = _check_maps({path: label_map for part in pairs for path, label_map in part.items()}, pictures, names,
                         places)
    sides = [list(part) for part in pairs] if len(pairs) == 2 else split(pictures, share)
    suffix = _single_suffix(pictures)
    arguments, lists = [], {}
    for name, side, image, label_map in zip(('train', 'val'), sides, images * 2, maps * 2):
        image, label_map = (images[-1], maps[-1]) if name == 'val' else (image, label_map)
        listed = out.with_name(f'{out.stem}_{name}.txt')
        lists[listed] = list_text(path.relative_to(image).with_suffix('').as_posix() for path in side)
        arguments.append(dict(ann_file=listed, data_prefix=dict(img_path=image, seg_map_path=label_map),
                              img_suffix=suffix, seg_map_suffix=MAP_SUFFIX, reduce_zero_label=False))
    facts = [f'image sizes: {sizes_found(pictures)}', *_shares(values, names)]
    return OwnData('BaseSegDataset', *arguments, tuple(map(len, sides)), names, facts,
                   problems_of(places, KINDS) + picture_problems(pictures, *sides), lists)


def _parts(folders: Sequence[Path]) -> list[Path]:
    """Folders for training and validation, or the only one."""
    for folder in folders:
        if folder.is_file():
            raise OwnDataError(f'{folder} is a file and --task seg reads folders of images and of PNG label maps; for '
                               'a COCO file take --task det')
    first = Path(folders[0]).resolve()
    if len(folders) == 1 and (first / 'train').is_dir() and (first / 'val').is_dir():
        return [first / 'train', first / 'val']
    return [Path(folder).resolve() for folder in folders]


def _class_names(maps: Path, classes: Sequence[str] | None) -> tuple[str, ...]:
    if classes:
        return tuple(classes)
    for file in (maps / 'classes.txt', maps.parent / 'classes.txt'):
        if file.is_file():
            return tuple(line.strip() for line in file.read_text(encoding='utf-8').splitlines() if line.strip())
    raise OwnDataError(f'--classes is missing: name the values 0, 1, ... of the label maps, or write one name a line '
                       f'into {maps / "classes.txt"}')


def _pairs(images: Path, maps: Path, places: dict[str, list[str]]) -> dict[Path, Path]:
    """Label maps by their image."""
    found = {path: maps / path.relative_to(images).with_suffix(MAP_SUFFIX) for path in find_images(images)}
    label_maps = {path for path in find_images(maps) if path.suffix.lower() == MAP_SUFFIX}
    if not label_maps & {*found.values()}:
        raise OwnDataError(f'--ann {maps} has no label map for an image in {images}: an image a/NAME.jpg needs '
                           f'a/NAME{MAP_SUFFIX}')
    places['image without a label map'] += [str(path) for path, other in found.items() if other not in label_maps]
    places['label map without an image'] += sorted(map(str, label_maps - {*found.values()}))
    return {path: other for path, other in found.items() if other in label_maps}


def _single_suffix(pictures: Mapping[Path, Picture]) -> str:
    counts = Counter(path.suffix for path in pictures)
    if len(counts) != 1:
        text = ', '.join(f'{count} {suffix}' for suffix, count in counts.items())
        raise OwnDataError(f'the images end differently ({text}) and mmseg reads one suffix; convert or rename them')
    return next(iter(counts))


def _check_maps(pairs: Mapping[Path, Path], pictures: Mapping[Path, Picture], names: Sequence[str],
                places: dict[str, list[str]]) -> Counter:
    """Pixels of each value, over all maps."""
    total: Counter = Counter()
    with ThreadPoolExecutor() as pool:
        for (image, label_map), found in zip(pairs.items(), pool.map(_count, pairs.values())):
            path = str(label_map)
            if found is None:
                places['label map that cannot be read'].append(path)
                continue
            shape, counts = found
            if len(shape) != 2:
                places['label map with colours'].append(path)
                continue
            if pictures[image].size not in (None, shape[::-1]):
                places['label map of another size than its image'].append(path)
            total.update(counts)
            unknown = [value for value in counts if value >= len(names) and value != IGNORED]
            if unknown:
                places['label value without a class'].append(f'{shorten([*map(str, unknown)], 5)} in {path}')
    return total


def _count(path: Path) -> tuple[tuple[int, ...], dict[int, int]] | None:
    """The shape of a label map, read as mmseg reads it, and the pixels of each value; None where it is broken."""
    try:
        labels = mmcv.imfrombytes(path.read_bytes(), flag='unchanged', backend='pillow')
    except UNREADABLE:
        return None
    values, counts = np.unique(labels, return_counts=True)
    return labels.shape, dict(zip(values.astype(int).tolist(), counts.tolist()))


def _shares(values: Counter, names: Sequence[str]) -> list[str]:
    pixels = max(values.total(), 1)
    facts = [f'class {name} (value {value}): {values[value] / pixels:.1%} of the pixels' +
             ('' if values[value] else '; it cannot be learned') for value, name in enumerate(names)]
    return facts + [f'ignored ({IGNORED}): {values[IGNORED] / pixels:.1%} of the pixels'] * (values[IGNORED] > 0)
