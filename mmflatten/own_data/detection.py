"""Detection data: COCO annotation files, checked for entries that mmdet skips, misreads or fails on."""
from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmflatten.checkpoints.rules import shorten
from mmflatten.own_data.coco_file import CocoFile, read_coco
from mmflatten.own_data.data import OwnData, OwnDataError, Problem, Request, problems_of
from mmflatten.own_data.pictures import find_images, picture_problems, read_pictures, size_range, split

DATASET = 'mmflatten.CheckedCocoDataset'
UNUSABLE = 'unusable segmentation'
BORDER = 1  # pixels by which a box may exceed its image, for rounding
# name: (is an error, fix)
COCO_PROBLEMS = {
    'unknown category_id': (True, 'add it to categories or remove the annotation'),
    'unknown image_id': (True, 'add the image or remove the annotation'),
    'no bbox': (True, 'bbox must be four finite numbers, [x, y, width, height]; for maps of classes use --task seg'),
    'no area': (True, "add area, in pixels; mmdet and COCO's evaluation need it"),
    'no iscrowd': (True, "add iscrowd=0; COCO's evaluation needs it"),
    'box outside its image': (True, 'correct or remove it; bbox is [x, y, width, height] in pixels'),
    'box over the border': (False, 'it is clipped; check that bbox is [x, y, width, height] in pixels'),
    'box narrower than a pixel, or area 0': (False, 'it is skipped in training'),
    UNUSABLE: (False, 'a polygon needs at least three points (x, y); RLE needs the [height, width] of the image'),
    'annotation id 0': (False, "number from 1: COCO's evaluation counts matches of id 0 as false positives"),
    'listed image that does not exist': (True, 'correct file_name or --images'),
    'image without width and height': (True, 'add both'),
    'image size differs from the listed size': (True, 'correct width and height; photographs may be rotated (EXIF)'),
}


def read_detection(images: Sequence[Path], files: Sequence[Path], out: Path, val_fraction: float,
                   classes: Sequence[str] | None = None) -> OwnData:
    """Read COCO data. A single file is split into two beside `out`.

    Args:
        images: folder that `file_name` is relative to, or one for each annotation file.
        classes: names to keep; all by default.
    """
    parts = [read_coco(file, folder) for file, folder in zip(files, [*images, images[-1]])]
    pictures = read_pictures(path for part in parts for path in part.images)
    problems = [problem for part in parts for problem in _problems(part, pictures)]
    problems += _category_problems(parts)
    if any(problem.stops for problem in problems):  # the rest needs valid ids and names
        return OwnData(DATASET, {}, {}, (0, 0), problems=problems + picture_problems(pictures, pictures, []))
    names = _chosen(parts[0].names, classes)
    lists = {}
    if len(parts) == 1:
        parts = _split_file(parts[0], split(pictures, val_fraction), out)
        lists = {part.path: json.dumps(part.content) + '\n' for part in parts}
    train, val = parts
    problems += picture_problems(pictures, train.images, val.images) + _empty_classes(files[0], train, val, names)
    arguments = [dict(ann_file=part.path, data_prefix=dict(img=part.folder)) for part in parts]
    masks = all(annotation.get('segmentation') for part in parts for annotation in part.content['annotations'])
    masks = masks and not any(problem.name == UNUSABLE for problem in problems)
    arguments[0]['filter_cfg'] = dict(filter_empty_gt=True)
    return OwnData(DATASET, *arguments, (len(train.images), len(val.images)), tuple(names),
                   _summary(train, val, names, pictures, masks), problems, lists,
                   dict(ann_file=val.path, metric=['bbox', 'segm'] if masks else 'bbox'))


def _problems(part: CocoFile, pictures: dict) -> list[Problem]:
    images = {image.get('id'): image for image in part.content['images']}
    categories = {category.get('id') for category in part.content['categories']}
    places: dict[str, list[str]] = defaultdict(list)
    for annotation in part.content['annotations']:
        for name in _check_annotation(annotation, images, categories):
            places[name].append(f'annotation {annotation.get("id")} in {part.path}')
    for path, image in part.images.items():
        size = image.get('width'), image.get('height')
        if path not in pictures:
            places['listed image that does not exist'].append(str(path))
        elif None in size:
            places['image without width and height'].append(str(path))
        elif pictures[path].size not in (None, size):
            places['image size differs from the listed size'].append(str(path))
    problems = problems_of(places, COCO_PROBLEMS)
    over = places['box over the border']
    if len(over) > len(part.content['annotations']) / 2:
        problems.append(Problem('boxes like [x1, y1, x2, y2]', over, 'more than half exceed their image; bbox must be '
                                '[x, y, width, height]'))
    return problems + _repeated_ids(part)


def _check_annotation(annotation: dict, images: dict, categories: set) -> list[str]:
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
            problems.append(Problem(f'{key} of {kind} repeated or missing', repeated, 'each must occur once'))
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
        raise OwnDataError(f'--classes: expected categories of the annotation file ({shorten(names, 10)}), got '
                           f'{shorten(unknown, 5)}.')
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
        if elsewhere:
            fix = 'all are in validation: annotate more images, or give a file for each part'
        else:
            fix = f'add objects of {shorten(names, 5)}'
        return [Problem('no object for training', [f'annotations of {file}'], fix)]
    problems = []
    for part, name, effect in ((train, 'training', 'it cannot be learned'),
                               (val, 'validation', 'its AP is not counted')):
        counts = part.objects()
        empty = [label for label in names if not counts[label]]
        if empty:
            problems.append(Problem(f'class without an object in {name}', empty, effect, stops=False))
    return problems


def _summary(train: CocoFile, val: CocoFile, names: Sequence[str], pictures: dict, masks: bool) -> list[str]:
    facts = [f'image sizes: {size_range(pictures)}', 'masks: ' + ('yes' if masks else 'no')]
    counts = train.objects(), val.objects()
    facts += [f'class {name}: {counts[0][name]} objects for training, {counts[1][name]} for validation'
              for name in names]
    ids = sorted(category['id'] for category in train.content['categories'])
    if ids != list(range(1, len(ids) + 1)):
        facts.append(f'category ids: {shorten([*map(str, ids)], 10)}; sparse ids are allowed, labels are 0, 1, ...')
    unlisted = {*find_images(train.folder), *find_images(val.folder)} - {*train.images, *val.images}
    if unlisted:
        facts.append(f'{len(unlisted)} images in the folders are missing from the annotation files')
    return facts


def read(request: Request, base: Config, out: Path) -> OwnData:
    """Read the data that `mmflatten init` was given."""
    return read_detection(request.images, request.ann, out, request.val_share, request.classes)
