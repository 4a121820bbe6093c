"""COCO annotation files with checked types."""
from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from mmflatten.checkpoints.rules import shorten
from mmflatten.own_data.data import OwnDataError
from mmflatten.own_data.pictures import find_images

TEXT, NUMBER, ID = (str, 'text'), ((int, float), 'a number'), ((int, float, str), 'a number or text')
FIELDS = dict(images=dict(id=ID, file_name=TEXT, width=NUMBER, height=NUMBER),
              annotations=dict(id=NUMBER, image_id=ID, category_id=NUMBER), categories=dict(id=NUMBER, name=TEXT))


@dataclass
class CocoFile:
    """An annotation file and the folder of its images."""

    path: Path
    folder: Path
    content: dict

    @property
    def images(self) -> dict[Path, dict]:
        """Image entries by path."""
        return {self.folder / image['file_name']: image for image in self.content['images']}

    @property
    def names(self) -> list[str]:
        """Categories in the order of the file, in which mmdet numbers them."""
        return [category['name'] for category in self.content['categories']]

    def objects(self) -> Counter:
        """Count the objects of each category."""
        names = {category['id']: category['name'] for category in self.content['categories']}
        return Counter(names.get(annotation.get('category_id')) for annotation in self.content['annotations'])


def read_coco(path: Path, folder: Path) -> CocoFile:
    """Read a COCO file with images, annotations and categories.

    Raises:
        OwnDataError: the file has another format.
    """
    if path.is_dir():
        raise OwnDataError(f'--ann {path}: expected a COCO file (.json) for --task det, got a folder. For label maps '
                           'use --task seg.')
    find_images(folder)
    try:
        content = json.loads(path.read_text(encoding='utf-8'))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise OwnDataError(f'--ann {path}: expected a COCO file for --task det, got invalid JSON ({error}).') from error
    lists = {kind: content.get(kind) if isinstance(content, dict) else None for kind in FIELDS}
    missing = [kind for kind, entries in lists.items()
               if not isinstance(entries, list) or (kind != 'annotations' and not entries)]
    annotations = [] if 'annotations' in missing else lists['annotations']
    first = next((entry for entry in annotations if isinstance(entry, dict)), {})
    other = [task for key, task in (('caption', 'image captions'), ('segments_info', 'panoptic segmentation'))
             if key in first]
    if isinstance(content, dict) and 'shapes' in content:
        other.append('a single image of labelme')
    if other or missing:
        problem = other[0] if other else f'a file without {", ".join(missing)}'
        raise OwnDataError(f'--ann {path}: expected a COCO file of detection with images, annotations with bbox, and '
                           f'categories, got {problem}.')
    wrong = _wrong_types(lists)
    if wrong:
        raise OwnDataError(f'--ann {path}: entries have wrong types, {shorten(wrong, 3)}. Correct them.')
    return CocoFile(path.resolve(), folder.resolve(), content)


def _wrong_types(lists: dict[str, list]) -> list[str]:
    """List entries and values of other types than in COCO. Missing ids and sizes are checked elsewhere."""
    wrong = []
    for kind, entries in lists.items():
        for number, entry in enumerate(entries):
            if not isinstance(entry, dict):
                wrong.append(f'{kind}[{number}] must be an object, got {entry!r:.40}')
                continue
            for key, (types, meaning) in FIELDS[kind].items():
                value = entry.get(key)
                if not isinstance(value, types) and (value is not None or types is str):
                    wrong.append(f'{key} of {kind}[{number}] must be {meaning}, got {value!r:.40}')
    return wrong
