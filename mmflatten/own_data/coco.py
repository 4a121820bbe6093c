"""Detection: COCO annotation files, checked for what mmdet would skip, misread or stop at."""
from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmflatten.checkpoints.rules import shorten
from mmflatten.own_data.coco_file import CocoFile, read_coco
from mmflatten.own_data.data import OwnData, OwnDataError, Problem, problems_of
from mmflatten.own_data.pictures import find_images, picture_problems, read_pictures, sizes_found, split

DATASET = 'mmflatten.CheckedCocoDataset'
UNUSABLE = 'unusable segmentation'
BORDER = 1  # pixels that a box may protrude by, as rounding does
# name: (stops, fix)
KINDS = {
    'unknown category_id': (True, 'list it under categories or remove the annotation'),
    'unknown image_id': (True, 'list the image or remove the annotation'),
    'no bbox': (True, 'bbox must be four finite numbers, [x, y, width, height]; for maps of classes take --task seg'),
    'no area': (True, "add area, in pixels; mmdet and COCO's evaluation read it"),
    'no iscrowd': (True, "add iscrowd=0; COCO's evaluation reads it"),
    'box outside its image': (True, 'correct or remove it; bbox is [x, y, width, height] in pixels'),
    'box over the border': (False, 'it is cut at the border; is bbox [x, y, width, height] in pixels?'),
    'box narrower than a pixel, or area 0': (False, 'it is skipped in training'),
    UNUSABLE: (False, "a polygon needs x and y of three points or more; run lengths their image's [height, width]"),
    'annotation id 0': (False, "number from 1: COCO's evaluation counts what finds this object as wrong"),
    'image listed and not there': (True, 'correct file_name or --images'),
    'image without width and height': (True, 'add both'),
    'image of another size than listed': (True, 'correct width and height; a photograph may be stored turned (EXIF)'),
}


def read_detection(images: Sequence[Path], files: Sequence[Path], out: Path, share: float,
                   classes: Sequence[str] | None = None) -> OwnData:
    """COCO data; one file is split into two beside `out`.

    Args:
        images: the folder that file names begin at, or one for each annotation file.
        classes: names to keep, where not all.
    """
    parts = [read_coco(file, folder) for file, folder in zip(files, [*images, images[-1]])]
    pictures = read_pictures(path for part in parts for path in part.images)
    problems = [problem for part in parts for problem in _problems(part, pictures)]
    problems += _category_problems(parts)
    if any(problem.stops for problem in problems):  # what follows relies on ids and names
        return OwnData(DATASET, {}, {}, (0, 0), problems=problems + picture_problems(pictures, pictures, []))
    names = _chosen(parts[0].names, classes)
    lists = {}
    if len(parts) == 1:
        parts = _split_file(parts[0], split(pictures, share), out)
        lists = {part.path: json.dumps(part.content) + '\n' for part in parts}
    train, val = parts
    problems += picture_problems(pictures, train.images, val.images) + _empty_classes(files[0], train, val, names)
    arguments = [dict(ann_file=part.path, data_prefix=dict(img=part.folder)) for part in parts]
    masks = all(annotation.get('segmentation') for part in parts for annotation in part.content['annotations'])
    masks = masks and not any(problem.name == UNUSABLE for problem in problems)
    arguments[0]['filter_cfg'] = dict(filter_empty_gt=True)
    return OwnData(DATASET, *arguments, (len(train.images), len(val.images)), tuple(names),
                   _facts(train, val, names, pictures, masks), problems, lists,
                   dict(ann_file=val.path, metric=['bbox', 'segm'] if masks else 'bbox'))


def _problems(part: CocoFile, pictures: dict) -> list[Problem]:
    images = {image.get('id'): image for image in part.content['images']}
    categories = {category.get('id') for category in part.content['categories']}
    places: dict[str, list[str]] = defaultdict(list)
    for annotation in part.content['annotations']:
        for name in _faults(annotation, images, categories):
            places[name].append(f'annotation {annotation.get("id")} in {part.path}')
    for path, image in part.images.items():
        size = image.get('width'), image.get('height')
        if path not in pictures:
            places['image listed and not there'].append(str(path))
        elif None in size:
            places['image without width and height'].append(str(path))
        elif pictures[path].size not in (None, size):
            places['image of another size than listed'].append(str(path))
    problems = problems_of(places, KINDS)
    over = places['box over the border']
    if len(over) > len(part.content['annotations']) / 2:
        problems.append(Problem('boxes like [x1, y1, x2, y2]', over, 'more than half reach over the border; bbox must '
                                'be [x, y, width, height]'))
    return problems + _repeated_ids(part)


def _faults(annotation: dict, images: dict, categories: set) -> list[str]:
    image, box = images.get(annotation.get('image_id')), annotation.get('bbox')
    faults = [f'no {name}' for name in ('area', 'iscrowd') if not _is_number(annotation.get(name))]
    if annotation.get('category_id') not in categories:
        faults.append('unknown category_id')
    if annotation.get('id') == 0:
        faults.append('annotation id 0')
    if image is None:
        return [*faults, 'unknown image_id']
    if annotation.get('segmentation') and not _is_mask(annotation['segmentation'], image):
        faults.append(UNUSABLE)
    if not isinstance(box, list) or len(box) != 4 or not all(map(_is_number, box)):
        return [*faults, 'no bbox']
    if None not in (image.get('width'), image.get('height')):
        x, y, width, height = box
        if x >= image['width'] or y >= image['height'] or x + width <= 0 or y + height <= 0:
            faults.append('box outside its image')
        elif min(x, y, image['width'] - x - width, image['height'] - y - height) < -BORDER:
            faults.append('box over the border')
        if min(width, height) < 1 or annotation.get('area') == 0:
            faults.append('box narrower than a pixel, or area 0')
    return faults


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _is_mask(segmentation: Any, image: dict) -> bool:
    if isinstance(segmentation, dict):
        return segmentation.get('size') == [image.get('height'), image.get('width')] and isinstance(
            segmentation.get('counts'), (str, list))
    return isinstance(segmentation, list) and all(
        isinstance(polygon, list) and len(polygon) >= 6 and len(polygon) % 2 == 0 and all(map(_is_number, polygon))
        for polygon in segmentation)


def _repeated_ids(part: CocoFile) -> list[Problem]:
    problems = []
    for kind, key in (('images', 'id'), ('images', 'file_name'), ('annotations', 'id'), ('categories', 'id'),
                      ('categories', 'name')):
        counts = Counter(entry.get(key) for entry in part.content[kind])
        repeated = [f'{value} in {part.path}' for value, count in counts.items() if count > 1 or value is None]
        if repeated:
            problems.append(Problem(f'{key} of {kind} repeated or missing', repeated, 'each must be there once'))
    return problems


def _category_problems(parts: Sequence[CocoFile]) -> list[Problem]:
    first, last = parts[0].names, parts[-1].names
    if first == last:
        return []
    differing = sorted({*first} ^ {*last}) or [f'{a} / {b}' for a, b in zip(first, last) if a != b]
    return [Problem('categories differ between training and validation', differing, 'mmdet numbers classes in the '
                    "file's order: list the same names in the same order in both")]


def _chosen(names: Sequence[str], classes: Sequence[str] | None) -> list[str]:
    unknown = [name for name in classes or [] if name not in names]
    if unknown:
        raise OwnDataError(f'--classes {shorten(unknown, 5)}: no such category; the annotation file has '
                           f'{shorten(names, 10)}')
    return [name for name in names if not classes or name in classes]


def _split_file(part: CocoFile, sides: Sequence[Sequence[Path]], out: Path) -> list[CocoFile]:
    halves = []
    for name, paths in zip(('train', 'val'), sides):
        images = [part.images[path] for path in paths]
        ids = {image['id'] for image in images}
        annotations = [entry for entry in part.content['annotations'] if entry['image_id'] in ids]
        halves.append(CocoFile(out.with_name(f'{out.stem}_{name}.json'), part.folder,
                               {**part.content, 'images': images, 'annotations': annotations}))
    return halves


def _empty_classes(file: Path, train: CocoFile, val: CocoFile, names: Sequence[str]) -> list[Problem]:
    if not any(train.objects()[name] for name in names):
        elsewhere = train.path != file and any(val.objects()[name] for name in names)
        what = 'all fell to validation: annotate more images, or give a file for each part' if elsewhere else \
            f'add objects of {shorten(names, 5)}'
        return [Problem('no object for training', [f'annotations of {file}'], what)]
    problems = []
    for part, where, what in ((train, 'training', 'it cannot be learned'),
                              (val, 'validation', 'its AP is not counted')):
        counts = part.objects()
        empty = [name for name in names if not counts[name]]
        if empty:
            problems.append(Problem(f'class without an object in {where}', empty, what, stops=False))
    return problems


def _facts(train: CocoFile, val: CocoFile, names: Sequence[str], pictures: dict, masks: bool) -> list[str]:
    facts = [f'image sizes: {sizes_found(pictures)}', 'masks: ' + ('yes' if masks else 'no')]
    counts = train.objects(), val.objects()
    facts += [f'class {name}: {counts[0][name]} objects for training, {counts[1][name]} for validation'
              for name in names]
    ids = sorted(category['id'] for category in train.content['categories'])
    if ids != list(range(1, len(ids) + 1)):
        facts.append(f'category ids: {shorten([*map(str, ids)], 10)}; sparse ids are fine, labels count 0, 1, ...')
    unlisted = {*find_images(train.folder), *find_images(val.folder)} - {*train.images, *val.images}
    if unlisted:
        facts.append(f'{len(unlisted)} images in the folders are in no annotation file')
    return facts
