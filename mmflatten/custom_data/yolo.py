"""Labels of YOLO: `data.yaml`, and a text file per image with a box or a polygon in each line, as
fractions.
"""

import math
import os
import reprlib
from collections import Counter
from pathlib import Path
from typing import Any

from mmflatten.custom_data.images import find_images, missing, read_pictures
from mmflatten.custom_data.labels import Labelled, Labels
from mmflatten.custom_data.reading import NAMES_FILE, DataError, Request, listed_names
from mmflatten.datasets.masks import box_of_mask
from mmflatten.untrusted.files import UnusableFile, read_text
from mmflatten.untrusted.yaml_files import read_yaml

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
        parts = []
        for folder, root in zip(ann, images):
            files = {}
            for image in find_images(root):
                files[image] = folder.resolve() / image.relative_to(root).with_suffix('.txt')
            parts.append((folder.resolve(), files))

    # The labels are fractions of the sizes of the images.
    paths = []
    for _, files in parts:
        paths += files
    pictures = read_pictures(paths, request.pictures)
    found = []
    for source, files in parts:
        labels = Labels(source, names=names)
        _check_files(labels, files)
        for image, file in files.items():
            labels.images[image] = []
            size = pictures[image].size
            if file.is_file() and size:
                labels.images[image] = _read_file(file, size, labels)
        found.append(labels)
    return found


def _read_yaml(file: Path) -> tuple[list[str], list[tuple[Path, dict[Path, Path]]]]:
    """Return the names, and the label file of each image for training and, if there is any, for
    validation.
    """
    content = read_yaml(file)
    if not isinstance(content, dict):
        raise _yaml_error(
            file, field='names', expected='a mapping with train, val and names', got=content
        )
    names = _class_names(file, content)
    if 'kpt_shape' in content:
        raise _yaml_error(
            file,
            field='kpt_shape',
            expected='boxes or polygons, since keypoints are not read',
            got=content['kpt_shape'],
        )
    root = content.get('path')
    if root is not None and not isinstance(root, str):
        raise _yaml_error(file, field='path', expected='a folder', got=root)
    parts = []
    for part in ('train', 'val'):
        images = _list_part(file, root, part=part, value=content.get(part))
        if images:
            parts.append((file, {image: _label_file(image) for image in images}))
    return names, parts


def _class_names(file: Path, content: dict) -> list[str]:
    """Return the names of a list, or of a mapping from the ids 0, 1, ..."""
    names = content.get('names')
    if isinstance(names, dict):
        if sorted(names, key=str) != sorted(range(len(names)), key=str):
            raise _yaml_error(
                file,
                field='names',
                expected=f'the ids 0 to {len(names) - 1}, as YOLO counts classes from 0',
                got=[*names],
            )
        names = [names[number] for number in range(len(names))]
    # YAML reads an unquoted `no` as a boolean, whose type is a subclass of int.
    is_list = isinstance(names, list) and len(names) > 0
    if not is_list or not all(type(name) in (str, int) for name in names):
        raise _yaml_error(
            file, field='names', expected='a list of class names (yes and no in quotes)', got=names
        )
    if content.get('nc', len(names)) != len(names):
        raise _yaml_error(
            file, field='nc', expected=f'{len(names)}, the number of names', got=content['nc']
        )
    return [str(name) for name in names]


def _yaml_error(file: Path, field: str, expected: str, got: Any) -> DataError:
    """Return an error with the line of the field."""
    place = 1
    for number, line in enumerate(read_text(file).splitlines(), 1):
        if line.startswith(field):
            place = number
            break
    return DataError(
        f'--ann {file}:{place}: {field}: expected {expected}, got {reprlib.repr(got)}.'
    )


def _list_part(file: Path, root: str | None, part: str, value: Any) -> list[Path]:
    """List the images of `train` or `val`, which are one or more folders or text files."""
    entries = value or []
    if not isinstance(entries, list):
        entries = [entries]
    places = [_find(file, root, entry) for entry in entries]
    if None in places or (part == 'train' and not places):
        raise _yaml_error(
            file,
            field=part,
            expected='folders of images, or text files (.txt) with their paths',
            got=value,
        )
    images = []
    for place in places:
        images += _list_images(place)
    return images


def _find(file: Path, root: str | None, entry: Any) -> Path | None:
    """Return the existing path of an entry, None if there is none."""
    if not isinstance(entry, str):
        return None
    tried = (
        file.parent / (root or '') / entry,
        file.parent / entry,
        # Roboflow writes ../train/images for a folder beside `data.yaml`
        file.parent / entry.removeprefix('../'),
    )
    for path in tried:
        if path.is_dir() or (path.suffix == '.txt' and path.exists()):
            return Path(os.path.normpath(path))  # links are not resolved
    return None


def _list_images(place: Path) -> list[Path]:
    if place.is_dir():
        return find_images(place)
    images = []
    for number, line in enumerate(read_text(place).splitlines(), 1):
        name = line.strip()
        if not name:
            continue
        image = Path(os.path.normpath(place.parent / name))
        if not image.exists():
            shown = missing(f'{name:.100}', name)
            raise DataError(f'{place}:{number}: the image {shown} does not exist.')
        images.append(image)
    return images


def _label_file(image: Path) -> Path:
    """Return `labels/...txt` for `images/...`, or the text file beside the image."""
    parts = list(image.parts)
    folders = range(len(parts) - 1)
    for index in reversed(folders):
        if parts[index] == 'images':
            parts[index] = 'labels'
            break
    return Path(*parts).with_suffix('.txt')


def _check_files(labels: Labels, files: dict[Path, Path]) -> None:
    """Report label files without an image or of two images, and other lists of names beside
    them.
    """
    uses = Counter(files.values())
    if not any(map(Path.is_file, uses)):
        raise DataError(
            f'--ann {labels.source}: none of {len(files)} images has a label file. That of '
            f'{next(iter(files))} would be {next(iter(uses))}.'
        )
    for image, file in files.items():
        if uses[file] > 1:
            labels.faults['label file of two images'].append(f'{file} of {image.name}')
    image_folders = {image.parent for image in files}
    for folder in sorted({file.parent for file in uses}):
        # A text file beside the images may be anything else.
        if folder.is_dir() and folder not in image_folders:
            for file in sorted(folder.glob('*.txt')):
                if file not in uses and file.name != NAMES_FILE:
                    labels.faults['label without an image'].append(str(file))
        other = listed_names(folder)
        if other and other != labels.names:
            labels.faults['two lists of class names differ'].append(
                f'{labels.source}: {", ".join(labels.names)}; {folder / NAMES_FILE}:'
                f' {", ".join(other)}'
            )


def _read_file(file: Path, size: tuple[int, int], labels: Labels) -> list[Labelled]:
    """Read the objects of an image with a size of (width, height)."""
    try:
        lines = read_text(file).splitlines()
    except UnusableFile as error:
        labels.faults['unreadable label file'].append(str(error).rstrip('.'))
        return []
    objects = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = f'{file}:{number}'
        label, values = _parse_numbers(line)
        fault = _find_fault(label, values)
        if fault:
            labels.faults[fault].append(f'{place} ({line.strip()[:60]})')
        elif not 0 <= label < len(labels.names):
            known = f'{label:g} of {len(labels.names)} names'
            labels.faults['class id without a name'].append(f'{place} ({known})')
        else:
            name = labels.names[int(label)]
            objects.append(_to_object(name, values, size=size, place=place))
    return objects


def _parse_numbers(line: str) -> tuple[float, list[float]]:
    """Return the class and the other numbers of a line; NaN and [] if there are others."""
    try:
        label, *values = map(float, line.split())
    except ValueError:
        return math.nan, []
    return label, values


def _find_fault(label: float, values: list[float]) -> str:
    """Return the name of the problem of a box or polygon, '' if there is none."""
    if _are_keypoints(values):
        return 'keypoints'
    if len(values) == 4:
        complete = min(values[2:]) >= 0
    else:
        complete = len(values) >= 6 and len(values) % 2 == 0
    if not label.is_integer() or not all(map(math.isfinite, values)) or not complete:
        return 'label that cannot be read'
    if max(map(abs, values)) > LARGEST_FRACTION:
        return 'coordinates look like pixels'
    return ''


def _are_keypoints(values: list[float]) -> bool:
    """Return True for a box and keypoints of x, y and a visibility of 0, 1 or 2, with the visible
    ones in the box.
    """
    if len(values) < 7 or len(values) % 3 != 1 or not {*values[6::3]} <= {0.0, 1.0, 2.0}:
        return False
    x, y, width, height = values[:4]
    visible = 0
    for px, py, visibility in zip(values[4::3], values[5::3], values[6::3]):
        if not visibility:
            continue
        visible += 1
        # the negated comparison excludes NaN
        if not (abs(px - x) <= width / 2 and abs(py - y) <= height / 2):
            return False
    return visible > 0


def _to_object(name: str, values: list[float], size: tuple[int, int], place: str) -> Labelled:
    """Return a box or polygon in pixels."""
    pixels = [value * size[index % 2] for index, value in enumerate(values)]
    if len(pixels) > 4:
        return Labelled(name, box=box_of_mask([pixels]), polygons=[pixels], place=place)
    x, y, width, height = pixels
    box = [x - width / 2, y - height / 2, width, height]
    return Labelled(name, box=box, polygons=[], place=place)
