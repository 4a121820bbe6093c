"""Detection data: labels as COCO, checked for entries that mmdet skips, misreads or fails on."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmflatten.custom_data.coco import CocoFile, are_numbers
from mmflatten.custom_data.images import (
    Picture,
    picture_problems,
    read_pictures,
    size_range,
    split,
    too_thin,
)
from mmflatten.custom_data.label_formats import read_labels
from mmflatten.custom_data.labels import LABEL_PROBLEMS
from mmflatten.custom_data.reading import CustomData, DataError, Problem, Request, problems_of
from mmflatten.datasets.masks import box_of_mask, can_be_drawn, overlaps
from mmflatten.datasets.used import (
    CROWD,
    IGNORED,
    OTHER,
    TINY,
    Used,
    reason_left_out,
    too_few_boxes,
    used_by_mmdet,
)
from mmflatten.text import shorten

DATASET = 'mmflatten.CheckedCocoDataset'
UNUSABLE = 'unusable segmentation'
OUTSIDE = 0.25, 2  # of a box's side, and pixels by which a segmentation may exceed it
BORDER = 1  # pixels by which a box may exceed its image, for rounding
UNIQUE = (
    ('images', 'id'),
    ('images', 'file_name'),
    ('annotations', 'id'),
    ('categories', 'id'),
    ('categories', 'name'),
)
# name: (is an error, fix)
COCO_PROBLEMS = {
    'unknown category_id': (True, 'add it to categories or remove the annotation'),
    'unknown image_id': (True, 'add the image or remove the annotation'),
    'no bbox': (
        True,
        (
            'bbox must be four finite numbers, [x, y, width, height]; for maps of classes use'
            ' --task seg'
        ),
    ),
    'no area': (True, "add area, in pixels; mmdet and COCO's evaluation need it"),
    'no iscrowd': (True, "add iscrowd=0; COCO's evaluation needs it"),
    'box outside its image': (
        True,
        'correct or remove it; bbox is [x, y, width, height] in pixels',
    ),
    'box over the border': (
        False,
        'it is clipped; check that bbox is [x, y, width, height] in pixels',
    ),
    TINY: (False, 'it is skipped in training'),
    IGNORED: (
        False,
        (
            "it is skipped in training, and COCO's evaluation counts it; remove the field or the"
            ' object'
        ),
    ),
    CROWD: (
        False,
        (
            'training ignores it; CVAT writes masks of a brush so: --crowds-as-objects reads them'
            ' as objects'
        ),
    ),
    'object twice (same image, class and box)': (
        False,
        'it counts twice, and the second is always missed; remove it',
    ),
    'rotated box (attributes.rotation)': (
        False,
        'bbox is that before it; export polygons, or the box around',
    ),
    'segmentation that cannot be drawn': (
        True,
        (
            'coordinates must be pixels near the image; run lengths need its '
            '[height, width] and number of pixels'
        ),
    ),
    'segmentation outside its box': (
        True,
        'both must be pixels of the same image, not fractions, and not shifted',
    ),
    'mask without pixels': (
        False,
        'its box is learned, and its mask as empty, as a detector may predict it',
    ),
    UNUSABLE: (False, 'a polygon needs at least three points (x, y), in an even number of values'),
    'annotation id 0': (
        False,
        "number from 1: COCO's evaluation counts matches of id 0 as false positives",
    ),
    'listed image that does not exist': (True, 'correct file_name or --images'),
    'image without width and height': (True, 'add both'),
    'image size differs from the listed size': (
        True,
        'correct width and height; photographs may be rotated (EXIF)',
    ),
    'boxes look normalised': (
        True,
        'more than half lie between 0 and 1; multiply them by the width and height',
    ),
    'boxes like [x1, y1, x2, y2]': (
        True,
        'more than half exceed their image; bbox must be [x, y, width, height]',
    ),
    **{
        f'{key} of {kind} repeated or missing': (True, 'each must occur once')
        for kind, key in UNIQUE
    },
}


def read(request: Request, base: Config) -> CustomData:
    """Read COCO files or labels of another format, in one part that is split, or in two."""
    parts, pictures, problems = read_checked(request)
    first, read = parts[0].names, parts
    if any(problem.stops for problem in problems):  # the rest needs valid ids and names
        return CustomData(
            DATASET, {}, {}, (0, 0), problems=problems + picture_problems(pictures, pictures, [])
        )
    names = _chosen(first, request.classes)
    sides = [list(part.images) for part in parts]
    if len(parts) == 1:
        sides, parts = split(pictures, request.val_share), parts * 2
    if parts[0] is parts[1] or parts[0].converted:
        parts = [
            part.subset(side, request.split_file(name, '.json'))
            for part, side, name in zip(parts, sides, ('train', 'val'))
        ]
    lists = {part.path: json.dumps(part.content) + '\n' for part in parts if part.converted}
    train, val = parts
    problems += picture_problems(pictures, train.images, val.images)
    filter_cfg = dict(filter_empty_gt=True)
    masks = all(
        annotation.get('segmentation')
        for part in parts
        for annotation in part.content['annotations']
    )
    masks = masks and not any(problem.name == UNUSABLE for problem in problems)
    arguments = [dict(ann_file=part.path, data_prefix=dict(img=part.folder)) for part in parts]
    arguments[0]['filter_cfg'] = filter_cfg
    used = [
        used_by_mmdet(part.content, names, rule, masks)
        for part, rule in ((train, filter_cfg), (val, {}))
    ]
    problems += _empty_classes(request.ann[0], *used, names) + too_thin(pictures, base)
    if base is not None:
        if limits := too_few_boxes(base.model, max(part.most for part in used)):
            problems.append(
                Problem(
                    'more objects than boxes', limits, 'it is a setting of the base', stops=False
                )
            )
    facts = _summary(*used, names, pictures, masks, [len(part.images) for part in (train, val)])
    for folder in dict.fromkeys(part.folder for part in read):
        if rest := frozenset.intersection(
            *(part.unlisted for part in read if part.folder == folder)
        ):
            facts.append(f'{len(rest)} images in {folder} are in no annotation file: left out')
    return CustomData(
        DATASET,
        *arguments,
        (len(used[0].images), len(val.images)),
        tuple(names),
        facts,
        problems,
        lists,
        dict(ann_file=val.path, metric=['bbox', 'segm'] if masks else 'bbox'),
    )


def read_checked(request: Request) -> tuple[list[CocoFile], dict[Path, Picture], list[Problem]]:
    """Read one or two parts with their images, and list the problems of the labels."""
    parts = read_labels(request)
    pictures = read_pictures((path for part in parts for path in part.images), request.pictures)
    problems = [problem for part in parts for problem in _problems(part, pictures)]
    first, last = parts[0].names, parts[-1].names
    if first != last:
        differing = sorted({*first} ^ {*last}) or [
            f'{a} / {b}' for a, b in zip(first, last) if a != b
        ]
        problems.append(
            Problem(
                'categories differ between training and validation',
                differing,
                'mmdet numbers '
                "classes in the file's order: list the same names in the same order in both",
            )
        )
    return parts, pictures, problems


def _problems(part: CocoFile, pictures: Mapping[Path, Picture]) -> list[Problem]:
    images = {image.get('id'): image for image in part.content['images']}
    categories = {category.get('id') for category in part.content['categories']}
    places: dict[str, list[str]] = defaultdict(list)
    seen: set[str] = set()
    for annotation in part.content['annotations']:
        for name in _check_annotation(annotation, images, categories):
            places[name].append(part.place(annotation))
        key = repr([annotation.get(field) for field in ('image_id', 'category_id', 'bbox')])
        if key in seen and annotation.get('bbox'):
            places['object twice (same image, class and box)'].append(part.place(annotation))
        seen.add(key)
    for path, image in part.images.items():
        size = image.get('width'), image.get('height')
        if path not in pictures:
            places['listed image that does not exist'].append(str(path))
        elif None in size:
            places['image without width and height'].append(str(path))
        elif pictures[path].size not in (None, size):
            places['image size differs from the listed size'].append(
                part.places.get(path, str(path))
            )
    boxes = [
        annotation
        for annotation in part.content['annotations']
        if are_numbers(annotation.get('bbox')) and len(annotation['bbox']) == 4
    ]
    normalised = [annotation for annotation in boxes if max(annotation['bbox']) <= 1]
    if 2 * len(normalised) > len(boxes):
        places['boxes look normalised'] = [
            f'{item["bbox"]} in {part.place(item)}' for item in normalised
        ]
        places.pop(TINY, None)
    over = places['box over the border']
    if len(over) > len(part.content['annotations']) / 2:
        places['boxes like [x1, y1, x2, y2]'] = over
    for kind, key in UNIQUE:
        counts = Counter(entry.get(key) for entry in part.content[kind])
        places[f'{key} of {kind} repeated or missing'] = [
            f'{value} in {part.path}'
            for value, count in counts.items()
            if count > 1 or value is None
        ]
    return problems_of({**places, **part.faults}, {**COCO_PROBLEMS, **LABEL_PROBLEMS})


def _check_annotation(
    annotation: dict, images: Mapping[Any, dict], categories: Collection
) -> list[str]:
    image, box = images.get(annotation.get('image_id')), annotation.get('bbox')
    faults = [
        f'no {name}' for name in ('area', 'iscrowd') if not are_numbers([annotation.get(name)])
    ]
    if annotation.get('category_id') not in categories:
        faults.append('unknown category_id')
    if annotation.get('id') == 0:
        faults.append('annotation id 0')
    if image is None:
        return [*faults, 'unknown image_id']
    segmentation = annotation.get('segmentation')
    if segmentation and not can_be_drawn(segmentation, image):
        faults.append('segmentation that cannot be drawn')
    elif isinstance(segmentation, list) and not all(
        are_numbers(polygon) and len(polygon) >= 6 and len(polygon) % 2 == 0
        for polygon in segmentation
    ):
        faults.append(UNUSABLE)
        segmentation = None
    if not are_numbers(box) or len(box) != 4:
        return [*faults, 'no bbox']
    attributes = annotation.get('attributes')
    if isinstance(attributes, dict) and attributes.get('rotation'):
        faults.append('rotated box (attributes.rotation)')
    if None not in (image.get('width'), image.get('height')):
        x, y, width, height = box
        if not overlaps(box, image):
            faults.append('box outside its image')
        elif min(x, y, image['width'] - x - width, image['height'] - y - height) < -BORDER:
            faults.append('box over the border')
        reason = reason_left_out(annotation, image, categories)
        if (
            reason not in (None, OTHER, TINY)
            or reason == TINY
            and not {'no area', 'box outside its image'} & {*faults}
        ):
            faults.append(reason)
        elif segmentation and not faults:
            around = box_of_mask(segmentation)
            if around == [0, 0, 0, 0]:
                faults.append('mask without pixels')
            elif _exceeds(around, box, image):
                faults.append('segmentation outside its box')
    return faults


def _chosen(names: Sequence[str], classes: Sequence[str] | None) -> list[str]:
    unknown = [name for name in classes or [] if name not in names]
    if unknown:
        raise DataError(
            f'--classes: expected categories of the annotation file ({shorten(names, 10)}), got '
            f'{shorten(unknown, 5)}.'
        )
    return [name for name in names if not classes or name in classes]


def _exceeds(inner: Sequence[float], box: Sequence[float], image: Mapping[str, Any]) -> bool:
    """Return True if a box in an image lies outside of another, or in a corner as fractions do."""
    for start, size, side in ((0, 2, image['width']), (1, 3, image['height'])):
        low, high = (
            min(max(value, 0), side) for value in (inner[start], inner[start] + inner[size])
        )
        slack = max(OUTSIDE[0] * box[size], OUTSIDE[1])
        if low < box[start] - slack or high > box[start] + box[size] + slack:
            return True
    return inner[0] + inner[2] <= 1 and inner[1] + inner[3] <= 1 and max(box[2:]) > OUTSIDE[1]


def _empty_classes(file: Path, train: Used, val: Used, names: Sequence[str]) -> list[Problem]:
    empty = [[name for name in names if not part.objects[name]] for part in (train, val)]
    if len(empty[0]) == len(names):
        reasons = ', '.join(
            f'{len(entries)} x {reason}' for reason, entries in train.left_out.items()
        )
        fix = f'annotate objects of {shorten(names, 5)}' if names else 'annotate objects'
        fix += f'; left out: {reasons}' if reasons else ''
        fix += ' (--crowds-as-objects reads crowds as objects)' if CROWD in train.left_out else ''
        return [Problem('no object for training', [f'annotations of {file}'], fix)]
    effects = dict(
        training='it cannot be learned: annotate more, or leave it out with --classes',
        validation='its AP is not counted',
    )
    return [
        Problem(f'class without an object in {part}', labels, effect, stops=part == 'training')
        for (part, effect), labels in zip(effects.items(), empty)
        if labels
    ]


def _summary(
    train: Used,
    val: Used,
    names: Sequence[str],
    pictures: Mapping[Path, Picture],
    masks: bool,
    listed: Sequence[int],
) -> list[str]:
    facts = [f'image sizes: {size_range(pictures)}', f'masks: {"yes" if masks else "no"}']
    facts += [
        f'class {name}: {train.objects[name]} objects for training, {val.objects[name]} for'
        ' validation'
        for name in names
    ]
    if background := listed[0] - len(train.images):
        facts.append(
            f'{background} of {listed[0]} training images have no object and are left out; '
            'filter_cfg=dict(filter_empty_gt=False) trains on them'
        )
    if others := len(train.left_out.get(OTHER, ())):
        facts.append(f'{others} objects for training are of classes that --classes leaves out')
    return facts
