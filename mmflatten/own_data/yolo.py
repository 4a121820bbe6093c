"""Labels of YOLO: `data.yaml`, and a text file per image with a box or a polygon in each line, as fractions."""
import math
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from mmflatten.own_data.data import OwnDataError, Request
from mmflatten.own_data.labels import (
    FROM_ONE,
    MALFORMED,
    NO_IMAGE,
    OTHER_ORDER,
    PIXELS,
    SHARED,
    UNKNOWN_ID,
    UNREADABLE,
    Labelled,
    Labels,
    box_of,
    label_files,
)
from mmflatten.own_data.pictures import find_images, read_pictures

SUFFIXES = ('.yaml', '.yml')
NAMES_FILE = 'classes.txt'  # of LabelImg and Label Studio
LARGEST_FRACTION = 2  # a box may lie over the border of its image, but not this far


def read(ann: list[Path], images: list[Path], request: Request) -> list[Labels]:
    """Read `data.yaml`, or folders of label files whose names are in `classes.txt` or `--classes`.

    Raises OwnDataError if the file or the names cannot be used.
    """
    if ann[0].is_file():
        names, parts = _read_yaml(ann[0].resolve())
    else:
        names = list(request.classes or _listed_names(ann[0]) or [])
        if not names:
            raise OwnDataError(f'--ann {ann[0]}: class names are missing. Give data.yaml, --classes, or one name per '
                               f'line in {ann[0] / NAMES_FILE}.')
        parts = [(folder.resolve(), {image: folder.resolve() / image.relative_to(root).with_suffix('.txt')
                                     for image in find_images(root)}) for folder, root in zip(ann, images)]
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
    _check_ids(found)
    return found


def _read_yaml(file: Path) -> tuple[list[str], list[tuple[Path, dict[Path, Path]]]]:
    """Return the names, and the label file of each image for training and, if there is any, for validation."""
    try:
        text = file.read_text(encoding='utf-8')
        content = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeError) as error:
        mark = getattr(error, 'problem_mark', None)
        raise OwnDataError(f'--ann {file}:{mark.line + 1 if mark else 1}: expected YAML, got '
                           f'{getattr(error, "problem", error)}. Correct the line.') from error

    def wrong(field: str, expected: str, got: Any) -> OwnDataError:
        line = next((n for n, line in enumerate(text.splitlines(), 1) if line.startswith(field)), 1)
        return OwnDataError(f'--ann {file}:{line}: {field}: expected {expected}, got {got!r:.200}.')

    if not isinstance(content, dict):
        raise wrong('names', 'a mapping with train, val and names', content)
    names = content.get('names')
    if isinstance(names, dict):
        if sorted(names, key=str) != sorted(range(len(names)), key=str):
            raise wrong('names', f'the ids 0 to {len(names) - 1}, as YOLO counts classes from 0', [*names])
        names = [names[number] for number in range(len(names))]
    if not isinstance(names, list) or not names or not all(isinstance(name, (str, int)) for name in names):
        raise wrong('names', 'a list of class names', names)
    if content.get('nc', len(names)) != len(names):
        raise wrong('nc', f'{len(names)}, the number of names', content['nc'])
    if 'kpt_shape' in content:
        raise wrong('kpt_shape', 'boxes or polygons, since keypoints are not read', content['kpt_shape'])
    parts = []
    for part in ('train', 'val'):
        entries = content.get(part) or []
        images: dict[Path, Path] = {}
        for entry in [entries] if isinstance(entries, str) else entries:
            # Roboflow writes ../train/images beside train/
            tried = [file.parent / (content.get('path') or '') / entry, file.parent / entry,
                     file.parent / entry.removeprefix('../')]
            place = next((path.resolve() for path in tried if path.exists()), None)
            if place is None:
                raise wrong(part, 'a folder of images or a text file with their paths', f'{entry}, which is missing')
            listed = find_images(place) if place.is_dir() else [
                (place.parent / line.strip()).resolve() for line in place.read_text(encoding='utf-8').splitlines()
                if line.strip()]
            missing = [number for number, path in enumerate(listed, 1) if not path.exists() and not path.is_symlink()]
            if missing:
                raise OwnDataError(f'{place}:{missing[0]}: the image {listed[missing[0] - 1]} does not exist.')
            images |= {path: _label_file(path) for path in listed}
        if images:
            parts.append((file, images))
        elif part == 'train':
            raise wrong(part, 'a folder of images', entries)
    return [str(name).strip() for name in names], parts


def _label_file(image: Path) -> Path:
    """Return `labels/...txt` for `images/...`, or the text file beside the image."""
    parts = list(image.parts)
    if 'images' in parts[:-1]:
        parts[len(parts) - 2 - parts[-2::-1].index('images')] = 'labels'
    return Path(*parts).with_suffix('.txt')


def _listed_names(folder: Path) -> list[str]:
    file = folder / NAMES_FILE
    lines = file.read_text(encoding='utf-8').splitlines() if file.is_file() else []
    return [line.strip() for line in lines if line.strip()]


def _check_files(labels: Labels, files: dict[Path, Path]) -> None:
    """Find label files of no image or of two, and other lists of names beside them."""
    uses = Counter(files.values())
    labels.faults[SHARED] += [f'{file} of {image.name}' for image, file in files.items() if uses[file] > 1]
    for folder in sorted({file.parent for file in files.values()}):
        if folder.is_dir() and folder not in {image.parent for image in files}:
            labels.faults[NO_IMAGE] += [str(file) for file in label_files(folder, '.txt')
                                        if file.parent == folder and file not in uses and file.name != NAMES_FILE]
        other = _listed_names(folder)
        if other and other != labels.names:
            labels.faults[OTHER_ORDER].append(f'{labels.source}: {", ".join(labels.names or [])}; '
                                              f'{folder / NAMES_FILE}: {", ".join(other)}')


def _read_file(file: Path, size: tuple[int, int], labels: Labels) -> list[Labelled]:
    """Read the objects of an image with a size of (width, height)."""
    objects = []
    try:
        lines = file.read_text(encoding='utf-8').splitlines()
    except UnicodeError as error:
        labels.faults[UNREADABLE].append(f'{file}:1 ({error})')
        return []
    for number, line in enumerate(lines, 1):
        words, place = line.split(), f'{file}:{number}'
        try:
            label, *values = map(float, words)
        except ValueError:
            label, values = math.nan, []
        if not words:
            continue
        box = len(values) == 4
        if not label.is_integer() or not all(map(math.isfinite, values)) or (
                min(values[2:]) < 0 if box else len(values) < 6 or len(values) % 2):
            labels.faults[MALFORMED].append(f'{place} ({line.strip()[:60]})')
        elif max(values) > LARGEST_FRACTION:
            labels.faults[PIXELS].append(f'{place} ({line.strip()[:60]})')
        elif not 0 <= label < len(labels.names or []):
            labels.faults[UNKNOWN_ID].append(f'{place} ({label:g} of {len(labels.names or [])} names)')
        else:
            scaled = [value * size[axis % 2] for axis, value in enumerate(values)]
            outline = box_of([scaled]) if not box else [scaled[0] - scaled[2] / 2, scaled[1] - scaled[3] / 2,
                                                        *scaled[2:]]
            objects.append(Labelled((labels.names or [])[int(label)], outline, [] if box else [scaled], place))
    return objects


def _check_ids(parts: list[Labels]) -> None:
    """Say that ids count from 1 if the only unknown id is the number of names, and id 0 is unused."""
    names = parts[0].names or []
    used = {item.name for part in parts for objects in part.images.values() for item in objects}
    unknown = [place for part in parts for place in part.faults[UNKNOWN_ID]]
    if unknown and names[0] not in used and all(f'({len(names)} of' in place for place in unknown):
        for part in parts:
            part.faults[FROM_ONE] = part.faults.pop(UNKNOWN_ID)
