"""Segmentation data: a folder of images and a folder of PNG maps whose pixels are class numbers."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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

MAP_SUFFIX = '.png'
# name: (is an error, fix)
LABEL_MAP_PROBLEMS = {
    'image without a label map': (
        True,
        f'put NAME{MAP_SUFFIX} of the same name into the folder of --ann',
    ),
    'label map without an image': (False, 'it is not used'),
    'unreadable label map': (True, 'replace it'),
    'label map with colours': (
        True,
        'convert the colours to one grey value per pixel, the class number',
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


def read(request: Request, base: Config) -> CustomData:
    """Read images and label maps that share names, each in one folder, `train` and `val` in it, or
    two folders.

    Classes without names in the request are read from `classes.txt` in or beside the first folder
    of maps.
    """
    images, maps = _find_folders(request)
    names = _class_names(request, maps[0])
    places: dict[str, list[str]] = defaultdict(list)
    pairs = [_pair(*folders, places) for folders in zip(images, maps)]
    label_maps = {}
    for part in pairs:
        label_maps |= part
    pictures = image_files.read_pictures(label_maps, request.pictures)
    suffix = _common_suffix(pictures)
    if len(pairs) == 2:
        sides = [list(part) for part in pairs]
    else:
        sides = image_files.split(pictures, request.val_share)

    facts = [f'image sizes: {image_files.size_range(pictures)}']
    facts += _check_maps(label_maps, pictures, names, places=places, training={*sides[0]})
    lines = []
    for side, root in zip(sides, (images[0], images[-1])):
        lines.append([path.relative_to(root).with_suffix('').as_posix() for path in side])
    arguments = []
    for image, label_map in zip(images, maps):
        arguments.append(
            dict(
                data_prefix=dict(img_path=image, seg_map_path=label_map),
                img_suffix=suffix,
                seg_map_suffix=MAP_SUFFIX,
                reduce_zero_label=False,
            )
        )
    problems = problems_of(places, LABEL_MAP_PROBLEMS)
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


def _pair(images: Path, maps: Path, places: dict[str, list[str]]) -> dict[Path, Path]:
    """Return the label map of each image that has one."""
    expected = {}
    for path in image_files.find_images(images):
        expected[path] = maps / path.relative_to(images).with_suffix(MAP_SUFFIX)
    files = image_files.find_images(maps)
    label_maps = {path for path in files if path.suffix.lower() == MAP_SUFFIX}
    unused = label_maps - {*expected.values()}
    if unused == label_maps:
        raise DataError(
            f'--ann {maps}: no label map matches an image in {images}. An image a/NAME.jpg needs '
            f'a/NAME{MAP_SUFFIX}.'
        )
    places['label map without an image'] += sorted(map(str, unused))
    pairs = {}
    for path, label_map in expected.items():
        if label_map in label_maps:
            pairs[path] = label_map
        else:
            places['image without a label map'].append(str(path))
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
        for (image, path), (shape, counts) in zip(label_maps.items(), counted):
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


def _count(path: Path) -> tuple[tuple[int, ...] | None, dict[int, int]]:
    """Read a label map like mmseg; return its shape, None if it is unreadable, and the pixels per
    value.
    """
    try:
        with image_files.opened(read_bytes(path)) as image:
            labels = np.array(image)
            values, counts = np.unique(labels, return_counts=True)
    except image_files.UNREADABLE:  # UnusableFile is a ValueError
        return None, {}
    return labels.shape, dict(zip(values.astype(int).tolist(), counts.tolist()))
