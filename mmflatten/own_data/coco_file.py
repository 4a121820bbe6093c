"""A COCO annotation file, with the types that the rest relies on."""
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
        """Entries by their file."""
        return {self.folder / image['file_name']: image for image in self.content['images']}

    @property
    def names(self) -> list[str]:
        """Categories in the order of the file, which is the order in which mmdet numbers them."""
        return [category['name'] for category in self.content['categories']]

    def objects(self) -> Counter:
        """Objects of each category."""
        names = {category['id']: category['name'] for category in self.content['categories']}
        return Counter(names.get(annotation.get('category_id')) for annotation in self.content['annotations'])


def read_coco(path: Path, folder: Path) -> CocoFile:
    """A COCO file with images, annotations and categories.

    Raises:
        OwnDataError: it is something else; says what, where that can be told.
    """
    if path.is_dir():
        raise OwnDataError(f'--ann {path} is a folder and --task det reads COCO files (.json); for label maps take '
                           '--task seg')
    find_images(folder)
    try:
        content = json.loads(path.read_text(encoding='utf-8'))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise OwnDataError(f'--ann {path} is not JSON ({error}); --task det reads COCO files') from error
    lists = {kind: content.get(kind) if isinstance(content, dict) else None for kind in FIELDS}
    lacking = [kind for kind, entries in lists.items()
               if not isinstance(entries, list) or (kind != 'annotations' and not entries)]
    annotations = [] if 'annotations' in lacking else lists['annotations']
    first = next((entry for entry in annotations if isinstance(entry, dict)), {})
    other = [task for key, task in (('caption', 'image captions'), ('segments_info', 'panoptic segmentation'))
             if key in first]
    other += ['a single image of labelme'] * (isinstance(content, dict) and 'shapes' in content)
    if other or lacking:
        what = f'annotations of another task ({other[0]})' if other else f'without {", ".join(lacking)}'
        raise OwnDataError(f'--ann {path} is no COCO file of detection: {what}; it must hold images, annotations with '
                           'bbox, and categories')
    wrong = _wrong_types(lists)
    if wrong:
        raise OwnDataError(f'--ann {path} is no COCO file: {shorten(wrong, 3)}; correct the entries')
    return CocoFile(path.resolve(), folder.resolve(), content)


def _wrong_types(lists: dict[str, list]) -> list[str]:
    """Entries and values of another type than COCO's; a missing id or size is not among them."""
    wrong = []
    for kind, entries in lists.items():
        for number, entry in enumerate(entries):
            if not isinstance(entry, dict):
                wrong.append(f'{kind}[{number}] is {entry!r:.40} and must be an object')
                continue
            for key, (types, meaning) in FIELDS[kind].items():
                value = entry.get(key)
                if not isinstance(value, types) and (value is not None or types is str):
                    wrong.append(f'{key} of {kind}[{number}] is {value!r:.40} and must be {meaning}')
    return wrong
