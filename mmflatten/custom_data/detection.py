"""Detection data: labels as COCO, checked for entries that mmdet skips, misreads or fails on."""

import json
import reprlib
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmflatten.custom_data.coco import CHANGED_ID, CocoFile, are_numbers
from mmflatten.custom_data.images import (
    Picture,
    missing,
    picture_problems,
    read_pictures,
    size_range,
    split,
    too_thin,
    turned_images,
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
from mmflatten.engine.datasets import first_config
from mmflatten.text import shorten

DATASET = 'mmflatten.CheckedCocoDataset'
UNUSABLE = 'unusable segmentation'
# A segmentation may exceed its box by the larger of a fraction of the side and some pixels.
OUTSIDE_FRACTION = 0.25
OUTSIDE_PIXELS = 2
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
    'unknown image_id': (
        True,
        "add the image or remove the annotation; the text '1' is not the number 1",
    ),
    'no bbox': (
        True,
        'bbox must be four finite numbers, [x, y, width, height]; for maps of classes use --task'
        ' seg',
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
        "it is skipped in training, and COCO's evaluation counts it; remove the field or the"
        ' object',
    ),
    CROWD: (
        False,
        'training ignores it; CVAT exports masks drawn with a brush as crowds: --crowds-as-objects'
        ' reads them as objects',
    ),
    'object twice (same image, class and box)': (
        False,
        'it counts twice, and the second is always missed; remove it',
    ),
    'rotated box (attributes.rotation)': (
        False,
        'bbox is the box before the rotation; export polygons, or the box around',
    ),
    'segmentation that cannot be drawn': (
        True,
        'coordinates must be pixels near the image; run lengths need its [height, width] and number'
        ' of pixels',
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
    CHANGED_ID: (
        False,
        'NumPy rounds integers above 2**63 beside smaller ones; images or categories are numbered'
        ' from 1 in a corrected copy',
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
} | {f'{key} of {kind} repeated or missing': (True, 'each must occur once') for kind, key in UNIQUE}


def read(request: Request, base: Config) -> CustomData:
    """Read COCO files or labels of another format, in one part that is split, or in two."""
    sources, pictures, problems = read_checked(request)
    # The remaining steps require valid ids and names.
    if any(problem.stops for problem in problems):
        problems += picture_problems(pictures, pictures, [])
        return CustomData(dataset=DATASET, train={}, val={}, counts=(0, 0), problems=problems)

    names = _chosen(sources[0].names, request.classes)
    train, val = _split_parts(sources, pictures, request)
    problems += picture_problems(pictures, train.images, val.images)

    # The problems and facts count the objects and images that mmdet uses.
    filter_cfg = _filter_cfg(base)
    masks = _have_masks((train, val)) and not any(problem.name == UNUSABLE for problem in problems)
    used_train = used_by_mmdet(train.content, names, filter_cfg, masks)
    used_val = used_by_mmdet(val.content, names, {}, masks)
    problems += _empty_classes(request.ann[0], used_train, used_val, names)
    sizes_are_listed = all(part.path.suffix == '.json' for part in sources)
    problems += turned_images(pictures, 'boxes', sizes_are_listed)
    problems += too_thin(pictures, base)
    if base is not None:
        problems += _box_limits(base, used_train, used_val)

    facts = [f'image sizes: {size_range(pictures)}', f'masks: {"yes" if masks else "no"}']
    facts += _object_facts(used_train, used_val, names)
    facts += _left_out_facts(used_train, listed=train.content['images'], filter_cfg=filter_cfg)
    facts += _unlisted_facts(sources)
    lists = {}
    for part in (train, val):
        if part.converted:
            lists[part.path] = json.dumps(part.content) + '\n'
    return CustomData(
        dataset=DATASET,
        train=dict(ann_file=train.path, data_prefix=dict(img=train.folder), filter_cfg=filter_cfg),
        val=dict(ann_file=val.path, data_prefix=dict(img=val.folder)),
        counts=(len(used_train.images), len(val.images)),
        classes=tuple(names),
        facts=facts,
        problems=problems,
        lists=lists,
        metrics=('CocoMetric', 'FasterCocoMetric', 'CocoOccludedSeparatedMetric'),
        score='coco/bbox_mAP',
        evaluator=dict(ann_file=val.path, metric='bbox'),
        masks=masks,
        mask_evaluator=dict(metric=['bbox', 'segm']),
    )


def read_checked(request: Request) -> tuple[list[CocoFile], dict[Path, Picture], list[Problem]]:
    """Read one or two parts with their images, and list the problems of the labels."""
    parts = read_labels(request)
    paths = []
    for part in parts:
        paths += part.images
    pictures = read_pictures(paths, request.pictures, request.bands)
    problems = []
    for part in parts:
        problems += _problems(part, pictures)
    first, last = parts[0].names, parts[-1].names
    if first != last:
        differing = sorted({*first} ^ {*last})
        if not differing:  # the same names in another order
            differing = [f'{one} / {other}' for one, other in zip(first, last) if one != other]
        problems.append(
            Problem(
                name='categories differ between training and validation',
                where=differing,
                fix="mmdet numbers classes in the file's order: list the same names in the same"
                ' order in both',
            )
        )
    return parts, pictures, problems


def _problems(part: CocoFile, pictures: Mapping[Path, Picture]) -> list[Problem]:
    places: dict[str, list[str]] = defaultdict(list)
    _check_annotations(part, places)
    _check_images(part, pictures, places)
    _check_units(part, places)
    _check_unique(part, places)
    return problems_of({**places, **part.faults}, {**COCO_PROBLEMS, **LABEL_PROBLEMS})


def _check_annotations(part: CocoFile, places: dict[str, list[str]]) -> None:
    """Add the places of problems of single annotations, and of repeated ones."""
    images = {image.get('id'): image for image in part.content['images']}
    categories = {category.get('id') for category in part.content['categories']}
    seen: set[str] = set()
    for annotation in part.content['annotations']:
        for name in _check_annotation(annotation, images, categories):
            places[name].append(_place_of(name, annotation, part))
        # The fields of a hostile file need not be hashable.
        key = repr([annotation.get(field) for field in ('image_id', 'category_id', 'bbox')])
        if key in seen and annotation.get('bbox'):
            places['object twice (same image, class and box)'].append(part.place(annotation))
        seen.add(key)


def _place_of(name: str, annotation: dict, part: CocoFile) -> str:
    """Return the place of a problem, with the value of an unknown id."""
    _, is_unknown, key = name.partition('unknown ')
    value = f' ({reprlib.repr(annotation.get(key))})' if is_unknown else ''
    return part.place(annotation) + value


def _check_annotation(
    annotation: dict, images: Mapping[Any, dict], categories: Collection
) -> list[str]:
    """Return the names of the problems of an annotation."""
    faults = _check_fields(annotation, categories)
    image = images.get(annotation.get('image_id'))
    if image is None:
        return [*faults, 'unknown image_id']
    faults += _check_segmentation(annotation.get('segmentation'), image)
    box = annotation.get('bbox')
    if not are_numbers(box) or len(box) != 4:
        return [*faults, 'no bbox']
    attributes = annotation.get('attributes')
    if isinstance(attributes, dict) and attributes.get('rotation'):
        faults.append('rotated box (attributes.rotation)')
    if image.get('width') is None or image.get('height') is None:
        return faults

    faults += _check_box(box, image)
    reason = reason_left_out(annotation, image, categories)
    explained = 'no area' in faults or 'box outside its image' in faults
    if reason == TINY:
        if not explained:
            faults.append(reason)
    elif reason not in (None, OTHER):
        faults.append(reason)
    # The comparison requires a usable segmentation and a usable box.
    if annotation.get('segmentation') and not faults:
        faults += _compare_mask(annotation['segmentation'], box, image)
    return faults


def _check_fields(annotation: dict, categories: Collection) -> list[str]:
    """Check the fields that do not depend on the image."""
    faults = []
    for name in ('area', 'iscrowd'):
        if not are_numbers([annotation.get(name)]):
            faults.append(f'no {name}')
    if annotation.get('category_id') not in categories:
        faults.append('unknown category_id')
    if annotation.get('id') == 0:
        faults.append('annotation id 0')
    return faults


def _check_segmentation(segmentation: Any, image: dict) -> list[str]:
    if segmentation and not can_be_drawn(segmentation, image):
        return ['segmentation that cannot be drawn']
    if isinstance(segmentation, list) and not all(map(_is_polygon, segmentation)):
        return [UNUSABLE]
    return []


def _is_polygon(values: Any) -> bool:
    """Return True for at least three points, x and y in turn."""
    return are_numbers(values) and len(values) >= 6 and len(values) % 2 == 0


def _check_box(box: Sequence[float], image: dict) -> list[str]:
    x, y, width, height = box
    if not overlaps(box, image):
        return ['box outside its image']
    margins = (x, y, image['width'] - x - width, image['height'] - y - height)
    if min(margins) < -BORDER:
        return ['box over the border']
    return []


def _compare_mask(segmentation: Any, box: Sequence[float], image: dict) -> list[str]:
    around = box_of_mask(segmentation)
    if around == [0, 0, 0, 0]:
        return ['mask without pixels']
    if _exceeds(around, box, image):
        return ['segmentation outside its box']
    return []


def _exceeds(inner: Sequence[float], box: Sequence[float], image: Mapping[str, Any]) -> bool:
    """Return True if a box in an image lies outside of another, or in a corner as fractions do."""
    for axis, side in enumerate((image['width'], image['height'])):
        start, size = box[axis], box[axis + 2]
        low = _clip(inner[axis], side)
        high = _clip(inner[axis] + inner[axis + 2], side)
        slack = max(OUTSIDE_FRACTION * size, OUTSIDE_PIXELS)
        if low < start - slack or high > start + size + slack:
            return True
    in_corner = inner[0] + inner[2] <= 1 and inner[1] + inner[3] <= 1
    return in_corner and max(box[2:]) > OUTSIDE_PIXELS


def _clip(value: float, side: float) -> float:
    return min(max(value, 0), side)


def _check_images(
    part: CocoFile, pictures: Mapping[Path, Picture], places: dict[str, list[str]]
) -> None:
    """Compare the listed images with the files."""
    for path, image in part.images.items():
        size = image.get('width'), image.get('height')
        if path not in pictures:
            place = missing(path, str(image['file_name']))
            places['listed image that does not exist'].append(place)
        elif None in size:
            places['image without width and height'].append(str(path))
        elif pictures[path].size not in (None, size):
            place = part.places.get(path, str(path))
            places['image size differs from the listed size'].append(place)


def _check_units(part: CocoFile, places: dict[str, list[str]]) -> None:
    """Detect boxes in another unit or order of numbers, from the majority of the boxes."""
    annotations = part.content['annotations']
    boxes = []
    for annotation in annotations:
        box = annotation.get('bbox')
        if are_numbers(box) and len(box) == 4:
            boxes.append(annotation)
    normalised = [annotation for annotation in boxes if max(annotation['bbox']) <= 1]
    if 2 * len(normalised) > len(boxes):
        places['boxes look normalised'] = [
            f'{annotation["bbox"]} in {part.place(annotation)}' for annotation in normalised
        ]
        places.pop(TINY, None)  # the consequence
    over = places['box over the border']
    if len(over) > len(annotations) / 2:
        places['boxes like [x1, y1, x2, y2]'] = over


def _check_unique(part: CocoFile, places: dict[str, list[str]]) -> None:
    for kind, key in UNIQUE:
        name = f'{key} of {kind} repeated or missing'
        counts = Counter(entry.get(key) for entry in part.content[kind])
        for value, count in counts.items():
            if count > 1 or value is None:
                places[name].append(f'{value} in {part.path}')


def _chosen(names: Sequence[str], classes: Sequence[str] | None) -> list[str]:
    """Return the categories in `--classes`, in the order of the file; all if there are none."""
    unknown = [name for name in classes or [] if name not in names]
    if unknown:
        raise DataError(
            f'--classes: expected categories of the annotation file ({shorten(names, 10)}), got '
            f'{shorten(unknown, 5)}.'
        )
    return [name for name in names if not classes or name in classes]


def _split_parts(
    parts: Sequence[CocoFile], pictures: Mapping[Path, Picture], request: Request
) -> tuple[CocoFile, CocoFile]:
    """Return the training and the validation part; parts that are not yet a file are named."""
    train, val = parts[0], parts[-1]
    if len(parts) == 1:
        sides = split(pictures, request.val_share)
    else:
        sides = list(train.images), list(val.images)
    if len(parts) == 1 or train.converted:
        train = train.subset(sides[0], request.split_file('train', '.json'))
    if len(parts) == 1 or val.converted:
        val = val.subset(sides[1], request.split_file('val', '.json'))
    return train, val


def _have_masks(parts: Sequence[CocoFile]) -> bool:
    for part in parts:
        if not all(annotation.get('segmentation') for annotation in part.content['annotations']):
            return False
    return True


def _empty_classes(file: Path, train: Used, val: Used, names: Sequence[str]) -> list[Problem]:
    """Report classes without objects."""
    empty_train = [name for name in names if not train.objects[name]]
    empty_val = [name for name in names if not val.objects[name]]
    if len(empty_train) == len(names):
        fix = f'annotate objects of {shorten(names, 5)}' if names else 'annotate objects'
        reasons = [f'{len(entries)} x {reason}' for reason, entries in train.left_out.items()]
        if reasons:
            fix += f'; left out: {", ".join(reasons)}'
        if CROWD in train.left_out:
            fix += ' (--crowds-as-objects reads crowds as objects)'
        return [Problem('no object for training', [f'annotations of {file}'], fix)]
    problems = []
    if empty_train:
        problems.append(
            Problem(
                name='class without an object in training',
                where=empty_train,
                fix='it cannot be learned: annotate more, or leave it out with --classes',
            )
        )
    if empty_val:
        problems.append(
            Problem(
                name='class without an object in validation',
                where=empty_val,
                fix='its AP is not counted',
                stops=False,
            )
        )
    return problems


def _box_limits(base: Config, train: Used, val: Used) -> list[Problem]:
    """Report limits of the base on the number of detections that are below the objects."""
    limits = too_few_boxes(base.model, max(train.most, val.most))
    if not limits:
        return []
    return [
        Problem(
            name='more objects than boxes',
            where=limits,
            fix='it is a setting of the base',
            stops=False,
        )
    ]


def _object_facts(train: Used, val: Used, names: Sequence[str]) -> list[str]:
    return [
        f'class {name}: {train.objects[name]} objects for training, {val.objects[name]} for'
        ' validation'
        for name in names
    ]


def _filter_cfg(base: Config | None) -> dict[str, Any]:
    """Return which images the base's training leaves out; by default those without objects."""
    default = dict(filter_empty_gt=True)
    if base is None:
        return default
    stated = first_config(base.train_dataloader.dataset).get('filter_cfg') or {}
    # Data sets of other formats have rules of their own.
    rules = {key: stated[key] for key in ('filter_empty_gt', 'min_size') if key in stated}
    return rules or default


def _left_out_facts(
    train: Used, listed: Sequence[dict], filter_cfg: Mapping[str, Any]
) -> list[str]:
    """Return the numbers of images and objects of a part that training leaves out."""
    facts = []
    smallest = filter_cfg.get('min_size', 0)
    small = sum(min(image['width'], image['height']) < smallest for image in listed)
    if small:
        facts.append(
            f'{small} of {len(listed)} training images are smaller than min_size={smallest} of the'
            " base's filter_cfg and are left out"
        )
    background = len(listed) - len(train.images) - small
    if background:
        facts.append(
            f'{background} of {len(listed)} training images have no object and are left out; '
            'filter_cfg=dict(filter_empty_gt=False) trains on them'
        )
    others = len(train.left_out.get(OTHER, ()))
    if others:
        facts.append(f'{others} objects for training are of classes that --classes leaves out')
    return facts


def _unlisted_facts(parts: Sequence[CocoFile]) -> list[str]:
    """Return the number of images in each folder that no annotation file lists."""
    unlisted: dict[Path, frozenset[Path]] = {}
    for part in parts:
        unlisted[part.folder] = unlisted.get(part.folder, part.unlisted) & part.unlisted
    return [
        f'{len(rest)} images in {folder} are in no annotation file: left out'
        for folder, rest in unlisted.items()
        if rest
    ]
