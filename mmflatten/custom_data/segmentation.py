"""Segmentation data: a folder of images and a folder of maps whose pixels are class numbers."""

import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from mmengine.config import Config

from mmflatten.custom_data import images as image_files
from mmflatten.custom_data.reading import (
    NAMES_FILE,
    CustomData,
    DataError,
    Request,
    listed,
    listed_names,
    problems_of,
)
from mmflatten.datasets.used import CUT, IGNORED_LABEL, UNKNOWN, UNLABELLED, used_by_mmseg
from mmflatten.text import shorten
from mmflatten.untrusted.files import read_bytes

MAP_SUFFIXES = ('.png', '.tif', '.tiff', '.bmp')  # formats that keep the values
# Endings of the names of label maps, in order of preference, where an image has maps of several
# kinds: the same name, Cityscapes' values for training, and usual names.
PREFERRED = ('', 'gtFine_labelTrainIds', 'labelTrainIds', 'mask', 'label', 'labels', 'gt')
TURNED_MAP = 'label map with an orientation tag'
SAMPLES = 50  # images whose names decide which endings the names of the label maps have
# name: (is an error, fix)
LABEL_MAP_PROBLEMS = {
    'image without a label map': (
        True,
        'put a map of its name and the suffix of the other maps into the folder of --ann',
    ),
    'label map without an image': (False, 'it is not used'),
    'unreadable label map': (True, 'replace it'),
    'label map with colours': (
        True,
        'convert the colours to one grey value per pixel, the class number',
    ),
    TURNED_MAP: (
        False,
        'training turns the values of a TIFF by the tag, and not those of a PNG: turn the pixels'
        ' (ImageOps.exif_transpose of Pillow) and write the file without the tag',
    ),
    'label map size differs from its image': (True, 'both must have the same width and height'),
    UNKNOWN: (True, f'number the classes 0, 1, ... without gaps; {IGNORED_LABEL} is ignored'),
    CUT: (True, 'mmseg reads 8 bits, so that 257 would become 1: merge or renumber classes'),
    'class without pixels': (
        True,
        f'it cannot be learned: leave its name out, or draw it; {IGNORED_LABEL} is ignored, so'
        ' write 1 where an object is white',
    ),
}


class Endings(NamedTuple):
    """Endings of the names of an image, without its suffix, and of its label map."""

    image: str
    label_map: str


def read(request: Request, base: Config) -> CustomData:
    """Read images and label maps that share names, each in one folder, `train` and `val` in it, or
    two folders.

    Classes without names in the request are read from `classes.txt` in or beside the first folder
    of maps.
    """
    images, maps = _find_folders(request)
    names = _class_names(request, maps[0])
    places: dict[str, list[str]] = defaultdict(list)
    endings = [_find_endings(*folders) for folders in zip(images, maps)]
    pairs = []
    label_maps: dict[Path, Path] = {}
    for image, label_map, ending in zip(images, maps, endings):
        pairs.append(_pair(image, label_map, ending, places))
        label_maps |= pairs[-1]
    pictures = image_files.read_pictures(label_maps, request.pictures, request.bands)
    suffix = _common_suffix(pictures)
    if len(pairs) == 2:
        sides = [list(part) for part in pairs]
    else:
        sides = image_files.split(pictures, request.val_share)

    facts = [f'image sizes: {image_files.size_range(pictures)}']
    facts += _check_maps(label_maps, pictures, names, places=places, training={*sides[0]})
    lines = []
    for index, side in zip((0, -1), sides):
        end = endings[index].image + suffix
        root = images[index]
        lines.append([path.relative_to(root).as_posix().removesuffix(end) for path in side])
    arguments = []
    for image, label_map, ending in zip(images, maps, endings):
        arguments.append(
            dict(
                data_prefix=dict(img_path=image, seg_map_path=label_map),
                img_suffix=ending.image + suffix,
                seg_map_suffix=ending.label_map,
                reduce_zero_label=False,
            )
        )
    problems = problems_of(places, LABEL_MAP_PROBLEMS)
    problems += image_files.turned_images(pictures, 'label map')
    problems += image_files.too_thin(pictures, base)
    problems += image_files.picture_problems(pictures, *sides)
    return CustomData(
        'BaseSegDataset',
        **listed(request, lines, arguments),
        classes=names,
        facts=facts,
        problems=problems,
        metrics=('IoUMetric',),
        score='mIoU',
        evaluator=dict(iou_metrics=['mIoU']),
    )


def _find_folders(request: Request) -> tuple[list[Path], list[Path]]:
    """Return the folders of images and of label maps, one or two of each."""
    for folder in (*request.images, *request.ann):
        if folder.is_file():
            raise DataError(
                f'{folder}: expected a folder of images or PNG label maps for --task seg, got a'
                ' file. For a COCO file use --task det.'
            )
    images = image_files.split_folders(request.images)
    maps = image_files.split_folders(request.ann)
    if len(images) != len(maps):
        raise DataError(
            f'--ann: expected as many folders as in --images ({shorten([*map(str, images)])}), got '
            f'{len(maps)} ({shorten([*map(str, maps)])}).'
        )
    return images, maps


def _class_names(request: Request, maps: Path) -> tuple[str, ...]:
    """Return the names of `--classes`, or of `classes.txt` in or beside the folder of maps."""
    names = tuple(request.classes or listed_names(maps) or listed_names(maps.parent))
    if not names:
        raise DataError(
            '--classes is missing: name the label values 0, 1, ..., or write one name per line'
            f' into {maps / NAMES_FILE}.'
        )
    if not 2 <= len(names) <= IGNORED_LABEL:
        raise DataError(
            f'--classes: expected 2 to {IGNORED_LABEL} names, got {len(names)}'
            f' ({shorten(names, 3)}). One class needs a second for the rest: --classes background'
            ' NAME, with values 0 and 1. More do not fit the 8 bits that mmseg reads.'
        )
    return names


def _find_endings(images: Path, maps: Path) -> Endings:
    """Return the endings by which most images of a folder have a label map.

    Raises:
        DataError: no image has a label map, or several kinds of maps fit.
    """
    names = [path.relative_to(images).with_suffix('') for path in image_files.find_images(images)]
    files = [path.relative_to(maps) for path in image_files.find_images(maps)]
    label_maps = {path.as_posix() for path in files if path.suffix.lower() in MAP_SUFFIXES}
    sample = names[:: max(len(names) // SAMPLES, 1)]
    possible: set[Endings] = set()
    for name in sample[:: max(len(sample) // 8, 1)]:
        possible |= _possible_endings(name, label_maps)
    counts: Counter[Endings] = Counter()
    for endings in possible:
        counts[endings] = sum(_map_name(name, endings) in label_maps for name in sample)
    most = max(counts.values(), default=0)
    best = [endings for endings, count in counts.items() if count == most > 0]
    if not best:
        raise DataError(
            f'--ann {maps}: no label map matches an image in {images}. An image a/NAME.jpg needs'
            f' a/NAME.png (or {", ".join(MAP_SUFFIXES[1:])}), possibly with one ending for all,'
            f' such as NAME_mask.png; got {shorten([path.as_posix() for path in files], 3)}.'
        )
    return _preferred(best, maps)


def _possible_endings(name: Path, label_maps: Collection[str]) -> set[Endings]:
    """Return the endings with which an image would have one of the label maps in its folder.

    Args:
        name: path of the image without suffix.
    """
    folder = name.parent.as_posix()
    stem = name.name
    longest = 1  # characters that both names share
    found: set[Endings] = set()
    for label_map in label_maps:
        place, _, file = label_map.rpartition('/')
        shared = len(os.path.commonprefix([stem, os.path.splitext(file)[0]]))
        if (place or '.') != folder or shared < longest:
            continue
        if shared > longest:
            found.clear()
        longest = shared
        found.add(Endings(stem[shared:], file[shared:]))
    return found


def _preferred(best: Sequence[Endings], maps: Path) -> Endings:
    """Choose one of the endings that fit equally often, by `PREFERRED`."""
    # A longer ending of the image may leave a name that is only a part of the common one.
    shortest = min(len(endings.image) for endings in best)
    kinds = {}
    for endings in best:
        if len(endings.image) == shortest:
            kind = os.path.splitext(endings.label_map)[0]
            kinds[kind.lstrip('_-. ')] = endings
    for ending in PREFERRED:
        if ending in kinds:
            return kinds[ending]
    if len(kinds) > 1:
        raise DataError(
            f'--ann {maps}: expected one label map for each image, got several, which end in'
            f' {shorten(sorted(endings.label_map for endings in kinds.values()), 5)}. Move all but'
            ' one kind to another folder.'
        )
    return next(iter(kinds.values()))


def _map_name(name: Path, endings: Endings) -> str | None:
    """Return the name of the label map of an image; None if the image has another ending."""
    text = name.as_posix()
    if not text.endswith(endings.image):
        return None
    return text.removesuffix(endings.image) + endings.label_map


def _pair(
    images: Path, maps: Path, endings: Endings, places: dict[str, list[str]]
) -> dict[Path, Path]:
    """Return the label map of each image that has one."""
    files = {path.relative_to(maps).as_posix(): path for path in image_files.find_images(maps)}
    pairs = {}
    for path in image_files.find_images(images):
        name = _map_name(path.relative_to(images).with_suffix(''), endings)
        if name in files:
            pairs[path] = files[name]
        else:
            places['image without a label map'].append(str(path))
    # Files of other endings, such as the coloured maps of Cityscapes, belong to no image.
    used = {*pairs.values()}
    for name, path in files.items():
        if path not in used and name.endswith(endings.label_map):
            places['label map without an image'].append(str(path))
    return pairs


def _common_suffix(paths: Iterable[Path]) -> str:
    suffixes = Counter(path.suffix for path in paths)
    if len(suffixes) != 1:
        counts = ', '.join(f'{count} {suffix}' for suffix, count in suffixes.items())
        raise DataError(
            f'--images: expected one file suffix, which mmseg requires, got {counts}. Convert or'
            ' rename the images.'
        )
    return next(iter(suffixes))


def _check_maps(
    label_maps: Mapping[Path, Path],
    pictures: Mapping[Path, image_files.Picture],
    names: Sequence[str],
    places: dict[str, list[str]],
    training: Collection[Path],
) -> list[str]:
    """Check the label map of each image, and return a line for each class with its fraction of the
    training's pixels.
    """
    total: Counter = Counter()
    with ThreadPoolExecutor() as pool:
        counted = pool.map(_count, label_maps.values())
        for (image, path), (shape, counts, orientation) in zip(label_maps.items(), counted):
            if orientation != 1:
                places[TURNED_MAP].append(f'{path} (orientation {orientation})')
            if shape is None:
                places['unreadable label map'].append(str(path))
                continue
            if len(shape) != 2:
                places['label map with colours'].append(str(path))
                continue
            if pictures[image].size not in (None, shape[::-1]):
                places['label map size differs from its image'].append(str(path))
            _check_values(path, counts, classes=len(names), places=places)
            if image in training:
                total.update(counts)

    used, left_out = used_by_mmseg(total, len(names))
    pixels = max(total.total(), 1)
    lines = []
    for value, name in enumerate(names):
        lines.append(f'class {name} (value {value}): {used[value] / pixels:.1%} of the pixels')
        if total and not used[value]:
            places['class without pixels'].append(f'{name} (value {value})')
    for value, count in left_out.get(UNLABELLED, {}).items():
        lines.append(f'ignored ({value}): {count / pixels:.1%} of the pixels')
    return lines


def _check_values(
    path: Path, counts: Mapping[int, int], classes: int, places: dict[str, list[str]]
) -> None:
    """Add the values of a label map that mmseg does not accept."""
    _, left_out = used_by_mmseg(counts, classes)
    for reason, values in left_out.items():
        if reason != UNLABELLED:
            places[reason] += [f'{value} in {path}' for value in values]


def _count(path: Path) -> tuple[tuple[int, ...] | None, dict[int, int], int]:
    """Read a label map like mmseg; return its shape, None if it is unreadable, the pixels per
    value, and its orientation.
    """
    try:
        with image_files.opened(read_bytes(path)) as image:
            orientation = image_files.stored_orientation(image)
            labels = np.array(image)
            values, counts = np.unique(labels, return_counts=True)
    except image_files.UNREADABLE:  # UnusableFile is a ValueError
        return None, {}, 1
    return labels.shape, dict(zip(values.astype(int).tolist(), counts.tolist())), orientation
