"""Segmentation data: a folder of images and a folder of PNG maps whose pixels are class numbers."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
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
from mmflatten.files import read_bytes
from mmflatten.text import shorten

MAP_SUFFIX = '.png'
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
        (
            f'it cannot be learned: leave its name out, or draw it; {IGNORED_LABEL} is '
            'ignored, so write 1 where an object is white'
        ),
    ),
}


def read(request: Request, base: Config) -> CustomData:
    """Read images and label maps that share names, each in one folder, `train` and `val` in it, or
    two folders.

    Classes without names in the request are read from `classes.txt` in or beside the first folder
    of maps.
    """
    for folder in (*request.images, *request.ann):
        if folder.is_file():
            raise DataError(
                f'{folder}: expected a folder of images or PNG label maps for --task seg, got a'
                ' file. For a COCO file use --task det.'
            )
    images, maps = image_files.split_folders(request.images), image_files.split_folders(request.ann)
    if len(images) != len(maps):
        raise DataError(
            f'--ann: expected as many folders as in --images ({shorten([*map(str, images)])}), got '
            f'{len(maps)} ({shorten([*map(str, maps)])}).'
        )
    names = tuple(request.classes or listed_names(maps[0]) or listed_names(maps[0].parent))
    if not names:
        raise DataError(
            '--classes is missing: name the label values 0, 1, ..., or write one name per line'
            f' into {maps[0] / NAMES_FILE}.'
        )
    if not 2 <= len(names) <= IGNORED_LABEL:
        raise DataError(
            f'--classes: expected 2 to {IGNORED_LABEL} names, got {len(names)}'
            f' ({shorten(names, 3)}). One class needs a second for the rest: --classes background'
            ' NAME, with values 0 and 1. More do not fit the 8 bits that mmseg reads.'
        )
    places: dict[str, list[str]] = defaultdict(list)
    pairs = [_pairs(*folders, places) for folders in zip(images, maps)]
    label_maps = {image: label_map for part in pairs for image, label_map in part.items()}
    pictures = image_files.read_pictures(label_maps, request.pictures)
    suffixes = Counter(path.suffix for path in pictures)
    if len(suffixes) != 1:
        raise DataError(
            '--images: expected one file suffix, which mmseg requires, got'
            f' {", ".join(f"{count} {suffix}" for suffix, count in suffixes.items())}. Convert or'
            ' rename the images.'
        )
    sides = (
        [list(part) for part in pairs]
        if len(pairs) == 2
        else image_files.split(pictures, request.val_share)
    )
    facts = [
        f'image sizes: {image_files.size_range(pictures)}',
        *_check_maps(label_maps, pictures, names, places, {*sides[0]}),
    ]
    lines = [
        [path.relative_to(root).with_suffix('').as_posix() for path in side]
        for side, root in zip(sides, (images[0], images[-1]))
    ]
    arguments = [
        dict(
            data_prefix=dict(img_path=image, seg_map_path=label_map),
            img_suffix=[*suffixes][0],
            seg_map_suffix=MAP_SUFFIX,
            reduce_zero_label=False,
        )
        for image, label_map in zip(images, maps)
    ]
    return CustomData(
        'BaseSegDataset',
        **listed(request, lines, arguments),
        classes=names,
        facts=facts,
        problems=problems_of(places, LABEL_MAP_PROBLEMS)
        + image_files.too_thin(pictures, base)
        + image_files.picture_problems(pictures, *sides),
    )


def _pairs(images: Path, maps: Path, places: dict[str, list[str]]) -> dict[Path, Path]:
    """Pair images with their label maps."""
    found = image_files.find_images(images)
    expected = {path: maps / path.relative_to(images).with_suffix(MAP_SUFFIX) for path in found}
    label_maps = {
        path for path in image_files.find_images(maps) if path.suffix.lower() == MAP_SUFFIX
    }
    if not label_maps & {*expected.values()}:
        raise DataError(
            f'--ann {maps}: no label map matches an image in {images}. An image a/NAME.jpg needs '
            f'a/NAME{MAP_SUFFIX}.'
        )
    places['image without a label map'] += [
        str(path) for path, other in expected.items() if other not in label_maps
    ]
    places['label map without an image'] += sorted(map(str, label_maps - {*expected.values()}))
    return {path: other for path, other in expected.items() if other in label_maps}


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
        for (image, path), (shape, counts) in zip(
            label_maps.items(), pool.map(_count, label_maps.values())
        ):
            if shape is None:
                places['unreadable label map'].append(str(path))
            elif len(shape) != 2:
                places['label map with colours'].append(str(path))
            else:
                if pictures[image].size not in (None, shape[::-1]):
                    places['label map size differs from its image'].append(str(path))
                for reason, values in used_by_mmseg(counts, len(names))[1].items():
                    if reason != UNLABELLED:
                        places[reason] += [f'{value} in {path}' for value in values]
                total.update(counts if image in training else {})
    pixels, (used, left_out) = max(total.total(), 1), used_by_mmseg(total, len(names))
    lines = [
        f'class {name} (value {value}): {used[value] / pixels:.1%} of the pixels'
        for value, name in enumerate(names)
    ]
    if total:
        places['class without pixels'] += [
            f'{name} (value {value})' for value, name in enumerate(names) if not used[value]
        ]
    lines += [
        f'ignored ({value}): {count / pixels:.1%} of the pixels'
        for value, count in left_out.get(UNLABELLED, {}).items()
    ]
    return lines


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
