"""Labels of YOLO: `data.yaml`, and a text file per image with a box or a polygon in each line, as
fractions.
"""

import math
import os
import reprlib
from collections import Counter
from pathlib import Path
from typing import Any

from mmflatten.custom_data.images import find_images, read_pictures
from mmflatten.custom_data.labels import Labelled, Labels
from mmflatten.custom_data.reading import NAMES_FILE, DataError, Request, listed_names
from mmflatten.datasets.masks import box_of_mask
from mmflatten.files import UnusableFile, read_text, read_yaml

LARGEST_FRACTION = 2  # a box may lie over the border of its image, but not this far


def read(ann: list[Path], images: list[Path], request: Request) -> list[Labels]:
    """Read `data.yaml`, or folders of label files whose names are in `classes.txt` or `--classes`.

    Raises DataError if the file or the names cannot be used.
    """
    if ann[0].is_file():
        if len(ann) > 1:
            raise DataError(
                f'--ann {ann[1]}: expected one data.yaml with train and val, got {len(ann)} paths.'
            )
        names, parts = _read_yaml(ann[0].absolute())
    else:
        names = list(request.classes or listed_names(ann[0]) or [])
        if not names:
            raise DataError(
                f'--ann {ann[0]}: class names are missing. Give data.yaml, --classes, or one name'
                f' per line in {ann[0] / NAMES_FILE}.'
            )
        parts = [
            (
                folder.resolve(),
                {
                    image: folder.resolve() / image.relative_to(root).with_suffix('.txt')
                    for image in find_images(root)
                },
            )
            for folder, root in zip(ann, images)
        ]
    pictures = read_pictures((image for _, files in parts for image in files), request.pictures)
    found = []
    for source, files in parts:
        labels = Labels(source, names=names)
        _check_files(labels, files)
        for image, file in files.items():
            labels.images[image] = []
            if file.is_file() and pictures[image].size:
                labels.images[image] = _read_file(file, pictures[image].size, labels)
        found.append(labels)
    return found


def _read_yaml(file: Path) -> tuple[list[str], list[tuple[Path, dict[Path, Path]]]]:
    """Return the names, and the label file of each image for training and, if there is any, for
    validation.
    """
    content = read_yaml(file)

    def wrong(field: str, expected: str, got: Any) -> DataError:
        line = next(
            (n for n, line in enumerate(read_text(file).splitlines(), 1) if line.startswith(field)),
            1,
        )
        return DataError(
            f'--ann {file}:{line}: {field}: expected {expected}, got {reprlib.repr(got)}.'
        )

    if not isinstance(content, dict):
        raise wrong('names', 'a mapping with train, val and names', content)
    names = content.get('names')
    if isinstance(names, dict):
        if sorted(names, key=str) != sorted(range(len(names)), key=str):
            raise wrong(
                'names', f'the ids 0 to {len(names) - 1}, as YOLO counts classes from 0', [*names]
            )
        names = [names[number] for number in range(len(names))]
    if (
        not isinstance(names, list)
        or not names
        or not all(type(name) in (str, int) for name in names)
    ):
        raise wrong('names', 'a list of class names (yes and no in quotes)', names)
    if content.get('nc', len(names)) != len(names):
        raise wrong('nc', f'{len(names)}, the number of names', content['nc'])
    if 'kpt_shape' in content:
        raise wrong(
            'kpt_shape', 'boxes or polygons, since keypoints are not read', content['kpt_shape']
        )
    if content.get('path') is not None and not isinstance(content['path'], str):
        raise wrong('path', 'a folder', content['path'])
    parts = []
    for part in ('train', 'val'):
        entries = content.get(part) or []
        entries = entries if isinstance(entries, list) else [entries]
        places = [
            _find(file, content.get('path'), entry) for entry in entries if isinstance(entry, str)
        ]
        if None in places or len(places) < max(len(entries), part == 'train'):
            raise wrong(
                part, 'folders of images, or text files (.txt) with their paths', content.get(part)
            )
        images = [image for place in places for image in _list_images(place)]
        parts += [(file, {image: _label_file(image) for image in images})] if images else []
    return [str(name) for name in names], parts


def _find(file: Path, root: str | None, entry: str) -> Path | None:
    """Return the existing path of an entry; Roboflow writes ../train/images for a folder beside
    `data.yaml`.
    """
    tried = (
        file.parent / (root or '') / entry,
        file.parent / entry,
        file.parent / entry.removeprefix('../'),
    )
    return next(
        (
            Path(os.path.normpath(path))
            for path in tried  # links stay
            if path.is_dir() or path.suffix == '.txt' and path.exists()
        ),
        None,
    )


def _list_images(place: Path) -> list[Path]:
    if place.is_dir():
        return find_images(place)
    images = []
    for number, line in enumerate(read_text(place).splitlines(), 1):
        images += [Path(os.path.normpath(place.parent / line.strip()))] * bool(line.strip())
        if images and not images[-1].exists():
            raise DataError(f'{place}:{number}: the image {line.strip():.100} does not exist.')
    return images


def _label_file(image: Path) -> Path:
    """Return `labels/...txt` for `images/...`, or the text file beside the image."""
    parts = list(image.parts)
    if 'images' in parts[:-1]:
        parts[len(parts) - 2 - parts[-2::-1].index('images')] = 'labels'
    return Path(*parts).with_suffix('.txt')


def _check_files(labels: Labels, files: dict[Path, Path]) -> None:
    """Find label files of no image or of two, and other lists of names beside them."""
    uses = Counter(files.values())
    if not any(map(Path.is_file, uses)):
        raise DataError(
            f'--ann {labels.source}: none of {len(files)} images has a label file. That of '
            f'{next(iter(files))} would be {next(iter(uses))}.'
        )
    labels.faults['label file of two images'] += [
        f'{file} of {image.name}' for image, file in files.items() if uses[file] > 1
    ]
    for folder in sorted({file.parent for file in files.values()}):
        if folder.is_dir() and folder not in {image.parent for image in files}:
            labels.faults['label without an image'] += [
                str(file)
                for file in sorted(folder.glob('*.txt'))
                if file not in uses and file.name != NAMES_FILE
            ]
        other = listed_names(folder)
        if other and other != labels.names:
            labels.faults['two lists of class names differ'].append(
                f'{labels.source}: {", ".join(labels.names)}; {folder / NAMES_FILE}:'
                f' {", ".join(other)}'
            )


def _read_file(file: Path, size: tuple[int, int], labels: Labels) -> list[Labelled]:
    """Read the objects of an image with a size of (width, height)."""
    objects = []
    try:
        lines = read_text(file).splitlines()
    except UnusableFile as error:
        labels.faults['unreadable label file'].append(str(error).rstrip('.'))
        return []
    for number, line in ((number, line) for number, line in enumerate(lines, 1) if line.strip()):
        try:
            label, *values = map(float, line.split())
        except ValueError:
            label, values = math.nan, []
        box, place = len(values) == 4, f'{file}:{number}'
        if _are_keypoints(values):
            labels.faults['keypoints'].append(f'{place} ({line.strip()[:60]})')
        elif (
            not label.is_integer()
            or not all(map(math.isfinite, values))
            or (min(values[2:]) < 0 if box else len(values) < 6 or len(values) % 2)
        ):
            labels.faults['label that cannot be read'].append(f'{place} ({line.strip()[:60]})')
        elif max(map(abs, values)) > LARGEST_FRACTION:
            labels.faults['coordinates look like pixels'].append(f'{place} ({line.strip()[:60]})')
        elif not 0 <= label < len(labels.names):
            labels.faults['class id without a name'].append(
                f'{place} ({label:g} of {len(labels.names)} names)'
            )
        else:
            values = [value * size[axis % 2] for axis, value in enumerate(values)]
            around = box_of_mask([values])
            if box:
                around = [values[0] - values[2] / 2, values[1] - values[3] / 2, *values[2:]]
            objects.append(
                Labelled(labels.names[int(label)], around, [] if box else [values], place)
            )
    return objects


def _are_keypoints(values: list[float]) -> bool:
    """Return True for a box and keypoints of x, y and a visibility of 0, 1 or 2, with the visible
    ones in the box.
    """
    if len(values) < 7 or len(values) % 3 != 1 or not {*values[6::3]} <= {0.0, 1.0, 2.0}:
        return False
    x, y, width, height = values[:4]
    seen = [
        (px, py) for px, py, visible in zip(values[4::3], values[5::3], values[6::3]) if visible
    ]
    return bool(seen) and all(
        abs(px - x) <= width / 2 and abs(py - y) <= height / 2 for px, py in seen
    )
