"""Detection data: labels as COCO, checked for entries that mmdet skips, misreads or fails on."""
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmflatten.custom_data.coco import CocoFile, are_numbers, is_tiny
from mmflatten.custom_data.images import Picture, picture_problems, read_pictures, size_range, split
from mmflatten.custom_data.label_formats import read_labels
from mmflatten.custom_data.labels import LABEL_PROBLEMS
from mmflatten.custom_data.reading import CustomData, DataError, Problem, Request, problems_of
from mmflatten.datasets.masks import can_be_drawn
from mmflatten.text import shorten

DATASET = 'mmflatten.CheckedCocoDataset'
UNUSABLE, TINY = 'unusable segmentation', 'box narrower than a pixel, or area 0'
BORDER = 1  # pixels by which a box may exceed its image, for rounding
UNIQUE = (('images', 'id'), ('images', 'file_name'), ('annotations', 'id'), ('categories', 'id'),
          ('categories', 'name'))
# name: (is an error, fix)
COCO_PROBLEMS = {
    'unknown category_id': (True, 'add it to categories or remove the annotation'),
    'unknown image_id': (True, 'add the image or remove the annotation'),
    'no bbox': (True, 'bbox must be four finite numbers, [x, y, width, height]; for maps of classes use --task seg'),
    'no area': (True, "add area, in pixels; mmdet and COCO's evaluation need it"),
    'no iscrowd': (True, "add iscrowd=0; COCO's evaluation needs it"),
    'box outside its image': (True, 'correct or remove it; bbox is [x, y, width, height] in pixels'),
    'box over the border': (False, 'it is clipped; check that bbox is [x, y, width, height] in pixels'),
    TINY: (False, 'it is skipped in training'),
    UNUSABLE: (False, 'a polygon needs at least three points (x, y) near its image; RLE needs the [height, width] and '
               'the number of pixels of the image'),
    'annotation id 0': (False, "number from 1: COCO's evaluation counts matches of id 0 as false positives"),
    'listed image that does not exist': (True, 'correct file_name or --images'),
    'image without width and height': (True, 'add both'),
    'image size differs from the listed size': (True, 'correct width and height; photographs may be rotated (EXIF)'),
    'boxes look normalised': (True, 'more than half lie between 0 and 1; multiply them by the width and height'),
    'boxes like [x1, y1, x2, y2]': (True, 'more than half exceed their image; bbox must be [x, y, width, height]'),
    **{f'{key} of {kind} repeated or missing': (True, 'each must occur once') for kind, key in UNIQUE},
}


def read(request: Request, base: Config) -> CustomData:
    """Read COCO files or labels of another format, in one part that is split, or in two."""
    parts, pictures, problems = read_checked(request)
    first = parts[0].names
    if any(problem.stops for problem in problems):  # the rest needs valid ids and names
        return CustomData(DATASET, {}, {}, (0, 0), problems=problems + picture_problems(pictures, pictures, []))
    names = _chosen(first, request.classes)
    sides = [list(part.images) for part in parts]
    if len(parts) == 1:
        sides, parts = split(pictures, request.val_share), parts * 2
    if parts[0] is parts[1] or parts[0].converted:
        parts = [part.subset(side, request.split_file(name, '.json'))
                 for part, side, name in zip(parts, sides, ('train', 'val'))]
    lists = {part.path: json.dumps(part.content) + '\n' for part in parts if part.converted}
    train, val = parts
    problems += picture_problems(pictures, train.images, val.images)
    problems += _empty_classes(request.ann[0], train, val, names)
    masks = all(annotation.get('segmentation') for part in parts for annotation in part.content['annotations'])
    masks = masks and not any(problem.name == UNUSABLE for problem in problems)
    arguments = [dict(ann_file=part.path, data_prefix=dict(img=part.folder)) for part in parts]
    arguments[0]['filter_cfg'] = dict(filter_empty_gt=True)
    return CustomData(DATASET, *arguments, (len(train.images), len(val.images)), tuple(names),
                   _summary(train, val, names, pictures, masks), problems, lists,
                   dict(ann_file=val.path, metric=['bbox', 'segm'] if masks else 'bbox'))


def read_checked(request: Request) -> tuple[list[CocoFile], dict[Path, Picture], list[Problem]]:
    """Read one or two parts with their images, and list the problems of the labels."""
    parts = read_labels(request)
    pictures = read_pictures((path for part in parts for path in part.images), request.pictures)
    problems = [problem for part in parts for problem in _problems(part, pictures)]
    first, last = parts[0].names, parts[-1].names
    if first != last:
        differing = sorted({*first} ^ {*last}) or [f'{a} / {b}' for a, b in zip(first, last) if a != b]
        problems.append(Problem('categories differ between training and validation', differing, 'mmdet numbers '
                                "classes in the file's order: list the same names in the same order in both"))
    return parts, pictures, problems


def _problems(part: CocoFile, pictures: Mapping[Path, Picture]) -> list[Problem]:
    images = {image.get('id'): image for image in part.content['images']}
    categories = {category.get('id') for category in part.content['categories']}
    places: dict[str, list[str]] = defaultdict(list)
    for annotation in part.content['annotations']:
        for name in _check_annotation(annotation, images, categories):
            places[name].append(part.place(annotation))
    for path, image in part.images.items():
        size = image.get('width'), image.get('height')
        if path not in pictures:
            places['listed image that does not exist'].append(str(path))
        elif None in size:
            places['image without width and height'].append(str(path))
        elif pictures[path].size not in (None, size):
            places['image size differs from the listed size'].append(part.places.get(path, str(path)))
    boxes = [annotation for annotation in part.content['annotations']
             if are_numbers(annotation.get('bbox')) and len(annotation['bbox']) == 4]
    normalised = [annotation for annotation in boxes if max(annotation['bbox']) <= 1]
    if 2 * len(normalised) > len(boxes):
        places['boxes look normalised'] = [f'{item["bbox"]} in {part.place(item)}' for item in normalised]
        places.pop(TINY, None)
    over = places['box over the border']
    if len(over) > len(part.content['annotations']) / 2:
        places['boxes like [x1, y1, x2, y2]'] = over
    for kind, key in UNIQUE:
        counts = Counter(entry.get(key) for entry in part.content[kind])
        places[f'{key} of {kind} repeated or missing'] = [
            f'{value} in {part.path}' for value, count in counts.items() if count > 1 or value is None]
    return problems_of({**places, **part.faults}, {**COCO_PROBLEMS, **LABEL_PROBLEMS})


def _check_annotation(annotation: dict, images: Mapping[Any, dict], categories: Collection) -> list[str]:
    image, box = images.get(annotation.get('image_id')), annotation.get('bbox')
    faults = [f'no {name}' for name in ('area', 'iscrowd') if not are_numbers([annotation.get(name)])]
    if annotation.get('category_id') not in categories:
        faults.append('unknown category_id')
    if annotation.get('id') == 0:
        faults.append('annotation id 0')
    if image is None:
        return [*faults, 'unknown image_id']
    if annotation.get('segmentation') and not is_mask(annotation['segmentation'], image):
        faults.append(UNUSABLE)
    if not are_numbers(box) or len(box) != 4:
        return [*faults, 'no bbox']
    if None not in (image.get('width'), image.get('height')):
        x, y, width, height = box
        if x >= image['width'] or y >= image['height'] or x + width <= 0 or y + height <= 0:
            faults.append('box outside its image')
        elif min(x, y, image['width'] - x - width, image['height'] - y - height) < -BORDER:
            faults.append('box over the border')
        if is_tiny(annotation):
            faults.append(TINY)
    return faults


def is_mask(segmentation: Any, image: dict) -> bool:
    """Return True for run lengths or polygons that `pycocotools` draws."""
    return can_be_drawn(segmentation, image) and (isinstance(segmentation, dict) or all(
        are_numbers(polygon) and len(polygon) >= 6 and len(polygon) % 2 == 0 for polygon in segmentation))


def _chosen(names: Sequence[str], classes: Sequence[str] | None) -> list[str]:
    unknown = [name for name in classes or [] if name not in names]
    if unknown:
        raise DataError(f'--classes: expected categories of the annotation file ({shorten(names, 10)}), got '
                        f'{shorten(unknown, 5)}.')
    return [name for name in names if not classes or name in classes]


def _empty_classes(file: Path, train: CocoFile, val: CocoFile, names: Sequence[str]) -> list[Problem]:
    empty = [[name for name in names if not part.objects()[name]] for part in (train, val)]
    if len(empty[0]) == len(names):
        return [Problem('no object for training', [f'annotations of {file}'], f'add objects of {shorten(names, 5)}')]
    effects = dict(training='it cannot be learned', validation='its AP is not counted')
    return [Problem(f'class without an object in {part}', labels, effect, stops=False)
            for (part, effect), labels in zip(effects.items(), empty) if labels]


def _summary(train: CocoFile, val: CocoFile, names: Sequence[str], pictures: Mapping[Path, Picture],
             masks: bool) -> list[str]:
    facts = [f'image sizes: {size_range(pictures)}', f'masks: {"yes" if masks else "no"}']
    counts = train.objects(), val.objects()
    facts += [f'class {name}: {counts[0][name]} objects for training, {counts[1][name]} for validation'
              for name in names]
    return facts
