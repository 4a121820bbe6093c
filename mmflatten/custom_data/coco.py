"""COCO annotation files: reading, and the format in which all labels of detection reach mmdet."""

import codecs
import os
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmflatten.custom_data.images import file_names, find_images, plain_name
from mmflatten.custom_data.reading import MAX_CLASSES, DataError
from mmflatten.files import parse_json, read_bytes, read_text
from mmflatten.text import shorten

TEXT, NUMBER, ID = (
    (str, 'text'),
    ((int, float), 'a number'),
    ((int, float, str), 'a number or text'),
)
OUTLINE = ((list, dict), 'a list of polygons or an object of run lengths')
FIELDS = dict(
    images=dict(id=ID, file_name=TEXT, width=NUMBER, height=NUMBER),
    annotations=dict(id=NUMBER, image_id=ID, category_id=NUMBER, area=NUMBER, segmentation=OUTLINE),
    categories=dict(id=NUMBER, name=TEXT),
)
LARGEST = 2**40  # number of pixels


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
        return (
            self.places.get(annotation.get('id'))
            or f'annotation {annotation.get("id")} in {self.path}'
        )

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
            file,
            self.folder,
            {**self.content, 'images': images, 'annotations': annotations},
            self.places,
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
    lists = content if isinstance(content, dict) else {}
    missing = [
        kind
        for kind in FIELDS
        if not isinstance(lists.get(kind), list) or (kind != 'annotations' and not lists[kind])
    ]
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
    wrong = []
    for kind, fields in FIELDS.items():
        for number, entry in enumerate(lists[kind]):
            if not isinstance(entry, dict):
                wrong.append(f'{kind}[{number}] must be an object, got {reprlib.repr(entry)}')
                continue
            wrong += [
                f'{key} of {kind}[{number}] must be {meaning}, got {reprlib.repr(entry.get(key))}'
                for key, (types, meaning) in fields.items()
                if not isinstance(entry.get(key), types)
                and (entry.get(key) is not None or types is str)
            ]
    if wrong:
        raise DataError(
            f'--ann {path}: entries have wrong types, {shorten(wrong, 3)}. Correct them.'
        )
    # pycocotools reads neither
    changed = _without_groups(content) or read_bytes(path).startswith(codecs.BOM_UTF8)
    names = file_names(folder, files)
    for image in content['images']:
        found = names.get(plain_name(image['file_name'], folder))
        if found and not os.path.lexists(folder / image['file_name']):
            image['file_name'], changed = found.relative_to(folder).as_posix(), True
    listed = {os.path.normpath(folder / image['file_name']) for image in content['images']}
    return CocoFile(
        path.resolve(),
        folder.resolve(),
        content,
        converted=changed,
        unlisted=frozenset(file for file in files if os.path.normpath(file) not in listed),
    )


def _without_groups(content: dict) -> bool:
    """Remove categories without objects that are the supercategory of others, as Roboflow adds;
    return if so.
    """
    used = {entry.get('category_id') for entry in content['annotations']}
    parents = [category.get('supercategory') for category in content['categories']]
    parents = {name for name in parents if isinstance(name, str)}  # mmdet reads no other
    kept = [
        category
        for category in content['categories']
        if category['id'] in used
        or category['name'] not in parents
        or category.get('supercategory') == category['name']
    ]
    changed = 0 < len(kept) < len(content['categories'])
    if changed:
        content['categories'] = kept
    return changed


def are_numbers(values: Any) -> bool:
    """Return True for a list of numbers that are possible in an image, unlike infinity and NaN."""
    return isinstance(values, list) and all(
        isinstance(item, (int, float)) and abs(item) < LARGEST for item in values
    )
