"""COCO annotation files: reading, and the format in which all labels of detection reach mmdet."""

import codecs
import os
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmflatten.custom_data.images import (
    file_names,
    find_images,
    names_by_lower_case,
    plain_name,
)
from mmflatten.custom_data.reading import MAX_CLASSES, DataError
from mmflatten.datasets.used import ids_changed_by_evaluation
from mmflatten.text import shorten
from mmflatten.untrusted.files import read_bytes, read_text
from mmflatten.untrusted.json_files import parse_json

# Types that a field may have, and their name for a message.
TEXT = (str, 'text')
NUMBER = ((int, float), 'a number')
ID = ((int, float, str), 'a number or text')
OUTLINE = ((list, dict), 'a list of polygons or an object of run lengths')
FIELDS = dict(
    images=dict(id=ID, file_name=TEXT, width=NUMBER, height=NUMBER),
    annotations=dict(id=NUMBER, image_id=ID, category_id=NUMBER, area=NUMBER, segmentation=OUTLINE),
    categories=dict(id=NUMBER, name=TEXT),
)
LARGEST = 2**40  # number of pixels
CHANGED_ID = "id that COCO's evaluation changes"


@dataclass
class CocoFile:
    """An annotation file and the folder of its images.

    Attributes:
        path: the file, or the labels of another format.
        places: `file:line` of an annotation, by its id, or of an image, by its path, for another
            format.
        faults: places of problems of another format, by the names of `labels.LABEL_PROBLEMS`.
        converted: True if `content` is not in a file yet.
        unlisted: images in the folder that are not in the file.
    """

    path: Path
    folder: Path
    content: dict
    places: dict[Any, str] = field(default_factory=dict)
    faults: dict[str, list[str]] = field(default_factory=dict)
    converted: bool = False
    unlisted: frozenset[Path] = frozenset()

    def place(self, annotation: dict) -> str:
        """Return where an annotation is, for a message."""
        key = annotation.get('id')
        return self.places.get(key) or f'annotation {key} in {self.path}'

    @property
    def images(self) -> dict[Path, dict]:
        """Image entries by path."""
        return {self.folder / image['file_name']: image for image in self.content['images']}

    @property
    def names(self) -> list[str]:
        """Categories in the order of the file, in which mmdet numbers them."""
        return [category['name'] for category in self.content['categories']]

    def subset(self, paths: Sequence[Path], file: Path) -> 'CocoFile':
        """Return the part with these images, to be written to a file."""
        listed = self.images
        images = [listed[path] for path in paths]
        ids = {image['id'] for image in images}
        annotations = [entry for entry in self.content['annotations'] if entry['image_id'] in ids]
        return CocoFile(
            path=file,
            folder=self.folder,
            content=dict(self.content, images=images, annotations=annotations),
            places=self.places,
            converted=True,
        )


def read_coco(path: Path, folder: Path) -> CocoFile:
    """Read a COCO file. Raises DataError if it has another format; missing ids and sizes are not an
    error here.
    """
    if path.is_dir():
        raise DataError(
            f'--ann {path}: expected a COCO file (.json), data.yaml, or a folder of YOLO, Pascal'
            ' VOC or labelme files for --task det. For label maps use --task seg.'
        )
    files = find_images(folder)
    content = parse_json(path, read_text(path))
    _require_lists(path, content)
    _require_types(path, content)
    # A file with groups of categories, a byte order mark (which pycocotools cannot read) or other
    # spellings of the image names is replaced by a corrected copy.
    has_mark = read_bytes(path).startswith(codecs.BOM_UTF8)
    had_groups = _without_groups(content)
    had_other_names = _correct_names(content, folder, files)
    renumbered = _renumber(content, path)
    listed = {os.path.normpath(folder / image['file_name']) for image in content['images']}
    return CocoFile(
        path=path.resolve(),
        folder=folder.resolve(),
        content=content,
        converted=has_mark or had_groups or had_other_names or bool(renumbered),
        faults={CHANGED_ID: renumbered},
        unlisted=frozenset(file for file in files if os.path.normpath(file) not in listed),
    )


def _require_lists(path: Path, content: Any) -> None:
    """Raise DataError unless the content has the lists of a COCO file."""
    lists = content if isinstance(content, dict) else {}
    missing = []
    for kind in FIELDS:
        entries = lists.get(kind)
        # Annotations alone may be empty.
        if not isinstance(entries, list) or (not entries and kind != 'annotations'):
            missing.append(kind)
    if missing:
        raise DataError(
            f'--ann {path}: expected a COCO file of detection with images, annotations with bbox,'
            f' and categories, got a file without {", ".join(missing)}.'
        )
    if len(lists['categories']) > MAX_CLASSES:
        raise DataError(
            f'--ann {path}: categories: expected at most {MAX_CLASSES}, got'
            f' {len(lists["categories"])}. Remove those without objects.'
        )


def _require_types(path: Path, content: dict[str, list]) -> None:
    """Raise DataError for entries whose fields have other types than `FIELDS`."""
    wrong = []
    for kind, fields in FIELDS.items():
        for number, entry in enumerate(content[kind]):
            place = f'{kind}[{number}]'
            if isinstance(entry, dict):
                wrong += _wrong_fields(entry, fields, place)
            else:
                wrong.append(f'{place} must be an object, got {reprlib.repr(entry)}')
    if wrong:
        raise DataError(
            f'--ann {path}: entries have wrong types, {shorten(wrong, 3)}. Correct them.'
        )


def _wrong_fields(entry: dict, fields: dict[str, tuple], place: str) -> list[str]:
    """Describe the fields with other types; only text must not be missing."""
    wrong = []
    for key, (types, meaning) in fields.items():
        value = entry.get(key)
        may_be_missing = types is not str
        if isinstance(value, types) or (value is None and may_be_missing):
            continue
        wrong.append(f'{key} of {place} must be {meaning}, got {reprlib.repr(value)}')
    return wrong


def _without_groups(content: dict) -> bool:
    """Remove categories without objects that are the supercategory of others, as Roboflow adds;
    return True if there are some.
    """
    used = {entry.get('category_id') for entry in content['annotations']}
    parents = set()
    for category in content['categories']:
        parent = category.get('supercategory')
        if isinstance(parent, str):  # mmdet reads no other
            parents.add(parent)
    kept = []
    for category in content['categories']:
        name = category['name']
        is_group = name in parents and category.get('supercategory') != name
        if category.get('id') in used or not is_group:
            kept.append(category)
    changed = 0 < len(kept) < len(content['categories'])
    if changed:
        content['categories'] = kept
    return changed


def _correct_names(content: dict, folder: Path, files: Sequence[Path]) -> bool:
    """Replace names of missing files by those of `files` that differ in spelling alone; return True
    if there are some.
    """
    names = file_names(folder, files)
    in_lower_case = names_by_lower_case(names)
    changed = False
    for image in content['images']:
        plain = plain_name(image['file_name'], folder)
        found = names.get(plain) or names.get(in_lower_case.get(plain.casefold(), ''))
        if found and not os.path.lexists(folder / image['file_name']):
            image['file_name'] = found.relative_to(folder).as_posix()
            changed = True
    return changed


def _renumber(content: dict, path: Path) -> list[str]:
    """Number images and categories from 1 if COCO's evaluation would change their ids; return
    descriptions of these.
    """
    places = []
    for kind, field_name in (('images', 'image_id'), ('categories', 'category_id')):
        ids = [entry.get('id') for entry in content[kind] if entry.get('id') is not None]
        changed = ids_changed_by_evaluation(ids)
        if not changed:
            continue
        places += [f'id {value} of {kind} in {path}' for value in changed]
        numbers = {value: number for number, value in enumerate(ids, 1)}
        for entry in content[kind]:
            entry['id'] = numbers.get(entry.get('id'))
        for annotation in content['annotations']:
            annotation[field_name] = numbers.get(annotation.get(field_name))
    return places


def are_numbers(values: Any) -> bool:
    """Return True for a list of numbers that are possible in an image, unlike infinity and NaN."""
    if not isinstance(values, list):
        return False
    return all(isinstance(item, (int, float)) and abs(item) < LARGEST for item in values)
