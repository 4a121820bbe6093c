"""Annotations that mmdet and mmseg train on, and reasons why they leave out others."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mmflatten.datasets.masks import overlaps

# Reasons why mmdet leaves out annotations
IGNORED = 'object with ignore=1'
CROWD = 'crowd (iscrowd=1)'
TINY = 'box narrower than a pixel, or area 0 or below'
OTHER = 'object of another class'
NO_MASK = 'segmentation without a polygon of three points'

# Reasons why mmseg leaves out pixels of label maps
CUT = 'label value above 255'
UNKNOWN = 'label value without a class'
UNLABELLED = 'ignored pixels'
IGNORED_LABEL = 255


@dataclass
class Used:
    """Part of a COCO file that mmdet uses.

    Attributes:
        images: entries of the images.
        objects: number of each category name.
        left_out: annotations that are not learned, by the reason.
        most: number of objects in the image with the most.
    """

    images: list[dict] = field(default_factory=list)
    objects: Counter = field(default_factory=Counter)
    left_out: dict[str, list[dict]] = field(default_factory=dict)
    most: int = 0


def used_by_mmdet(
    content: Mapping[str, list[dict]],
    classes: Collection[str],
    filter_cfg: Mapping[str, Any] = {},
    masks: bool = False,
) -> Used:
    """Return what mmdet uses of the content of a COCO file.

    The rules are those of `CocoDataset.parse_data_info` and `filter_data`, and of `LoadAnnotations`
    for masks.

    Args:
        classes: names of the categories that are learned.
        filter_cfg: of the data set: `filter_empty_gt`, and `min_size` of the sides of an image in
            pixels.
        masks: the pipeline loads masks.
    """
    learned = set(classes)
    names = {}
    for category in content['categories']:
        if category['name'] in learned:
            names[category['id']] = category['name']
    images = {image['id']: image for image in content['images']}

    used, kept = Used(), Counter()
    with_objects = set()  # images with annotations of these classes, even if all are left out
    for entry in content['annotations']:
        if entry.get('category_id') in names:
            with_objects.add(entry['image_id'])
        image = images.get(entry.get('image_id'), {})
        reason = reason_left_out(entry, image, categories=names, masks=masks)
        if reason is None:
            used.objects[names[entry['category_id']]] += 1
            kept[entry['image_id']] += 1
        else:
            used.left_out.setdefault(reason, []).append(entry)

    smallest = filter_cfg.get('min_size', 0)
    keeps_empty = not filter_cfg.get('filter_empty_gt', False)
    for number, image in images.items():
        side = min(image.get('width') or 0, image.get('height') or 0)
        if side >= smallest and (keeps_empty or number in with_objects):
            used.images.append(image)
    used.most = max(kept.values(), default=0)
    return used


def reason_left_out(
    entry: Mapping[str, Any], image: Mapping[str, Any], categories: Collection, masks: bool = False
) -> str | None:
    """Return the reason why an annotation with a box of four numbers is not learned; None if it
    is learned.
    """
    box = entry.get('bbox')
    if not _is_box(box):
        box = [0, 0, 0, 0]
    if entry.get('ignore'):
        return IGNORED
    if min(box[2:]) < 1 or not overlaps(box, image) or (entry.get('area') or 0) <= 0:
        return TINY
    if entry.get('category_id') not in categories:
        return OTHER
    if entry.get('iscrowd'):
        return CROWD
    if masks and not _is_drawn(entry.get('segmentation')):
        return NO_MASK
    return None


def _is_box(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 4:
        return False
    return all(isinstance(item, (int, float)) for item in value)


def _is_drawn(segmentation: Any) -> bool:
    """Return True for run lengths, and for polygons of which one has at least three points."""
    if isinstance(segmentation, dict):
        return True
    for part in segmentation or ():
        if isinstance(part, list) and len(part) >= 6 and len(part) % 2 == 0:
            return True
    return False


def too_few_boxes(model: Mapping[str, Any], most: int) -> list[str]:
    """Return a sentence for each `max_per_img` in a detector's `test_cfg` below the number of
    objects in an image.
    """
    test_cfg = model.get('test_cfg') or {}
    parts = {'': test_cfg}
    for name, part in test_cfg.items():
        if isinstance(part, Mapping):
            parts[f'.{name}'] = part
    problems = []
    for name, part in parts.items():
        limit = part.get('max_per_img', most)
        if limit < most:
            problems.append(
                f'model.test_cfg{name}.max_per_img: an image has {most} objects, got {limit}, so'
                f' its recall is at most {limit / most:.2f}; set it to {most} or more'
            )
    return problems


def ids_changed_by_evaluation(ids: Iterable[Any]) -> list[Any]:
    """Return the ids of images or categories that COCO's evaluation does not find again.

    pycocotools passes all ids through one array of NumPy, which makes floating-point numbers of
    integers above 2**63 beside smaller ones, and text of mixed types. An image that is not found
    has no objects.
    """
    listed = list(ids)
    try:
        kept = set(np.unique(listed).tolist())
    except TypeError:  # ids that cannot be sorted
        return listed
    return [value for value in listed if value not in kept]


def used_by_mmseg(
    pixels: Mapping[int, int], classes: int, reduce_zero_label: bool = False
) -> tuple[Counter, dict[str, dict[int, int]]]:
    """Return the pixels of each label that mmseg trains on, and those of the values that it does
    not, by the reason.

    The rules are those of mmseg's `LoadAnnotations`, which reads 8 bits. With `UNKNOWN` values,
    training stops.

    Args:
        pixels: number of pixels of each value in label maps.
        classes: number of labels, from 0.
        reduce_zero_label: the value 0 is ignored, and label 0 has the value 1.
    """
    used, left_out = Counter(), {}
    for value, count in pixels.items():
        label = value - reduce_zero_label
        if 0 <= label < classes and value < IGNORED_LABEL:
            used[label] += count
        else:
            reason = _reason_of_value(value, label)
            left_out.setdefault(reason, {})[value] = count
    return used, left_out


def _reason_of_value(value: int, label: int) -> str:
    if value > IGNORED_LABEL:
        return CUT
    if value == IGNORED_LABEL or label < 0:
        return UNLABELLED
    return UNKNOWN
