"""Annotations that mmdet and mmseg train on, and reasons why they leave out others."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from mmflatten.datasets.masks import overlaps

IGNORED, CROWD, TINY = (
    'object with ignore=1',
    'crowd (iscrowd=1)',
    'box narrower than a pixel, or area 0 or below',
)
IGNORED_LABEL = 255
# of label maps
CUT, UNKNOWN, UNLABELLED = 'label value above 255', 'label value without a class', 'ignored pixels'
OTHER, NO_MASK = 'object of another class', 'segmentation without a polygon of three points'


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
    names = {
        category['id']: category['name']
        for category in content['categories']
        if category['name'] in learned
    }
    images = {image['id']: image for image in content['images']}
    used, kept = Used(), Counter()
    with_objects = {
        entry['image_id'] for entry in content['annotations'] if entry.get('category_id') in names
    }
    for entry in content['annotations']:
        reason = reason_left_out(entry, images.get(entry.get('image_id'), {}), names, masks)
        if reason is None:
            used.objects[names[entry['category_id']]] += 1
            kept[entry['image_id']] += 1
        else:
            used.left_out.setdefault(reason, []).append(entry)
    smallest, empty = filter_cfg.get('min_size', 0), not filter_cfg.get('filter_empty_gt', False)
    used.images = [
        image
        for number, image in images.items()
        if (empty or number in with_objects)
        and min(image.get('width') or 0, image.get('height') or 0) >= smallest
    ]
    used.most = max(kept.values(), default=0)
    return used


def reason_left_out(
    entry: Mapping[str, Any], image: Mapping[str, Any], categories: Collection, masks: bool = False
) -> str | None:
    """Say why an annotation with a box of four numbers is not learned; None if it is."""
    box = entry.get('bbox')
    if (
        not isinstance(box, list)
        or len(box) != 4
        or not all(isinstance(item, (int, float)) for item in box)
    ):
        box = [0, 0, 0, 0]
    if entry.get('ignore'):
        return IGNORED
    if min(box[2:]) < 1 or not overlaps(box, image) or (entry.get('area') or 0) <= 0:
        return TINY
    if entry.get('category_id') not in categories:
        return OTHER
    if entry.get('iscrowd'):
        return CROWD
    segmentation = entry.get('segmentation')
    drawn = isinstance(segmentation, dict) or any(
        isinstance(part, list) and len(part) >= 6 and len(part) % 2 == 0
        for part in segmentation or ()
    )
    return None if drawn or not masks else NO_MASK


def too_few_boxes(model: Mapping[str, Any], most: int) -> list[str]:
    """Return a sentence for each `max_per_img` in a detector's `test_cfg` below the number of
    objects in an image.
    """
    parts = {'': model.get('test_cfg') or {}}
    parts |= {f'.{name}': part for name, part in parts[''].items() if isinstance(part, Mapping)}
    return [
        f'model.test_cfg{name}.max_per_img: an image has {most} objects, got {limit}, so its recall'
        f' is at most {limit / most:.2f}; set it to {most} or more'
        for name, part in parts.items()
        if (limit := part.get('max_per_img', most)) < most
    ]


def used_by_mmseg(
    pixels: Mapping[int, int], classes: int, reduce_zero_label: bool = False
) -> tuple[Counter, dict[str, dict[int, int]]]:
    """Return the pixels of each label that mmseg trains on, and those of the values that it does
    not, by the reason.

    The rules are those of mmseg's `LoadAnnotations`, which reads 8 bits. With `UNKNOWN` values,
    training stops.

    Args:
        pixels: number of pixels of each value in label maps.
        classes: number of labels, from 0; `reduce_zero_label` takes label 0 from the value 1, and
            ignores 0.
    """
    used, left_out = Counter(), {}
    for value, count in pixels.items():
        label = value - reduce_zero_label
        if 0 <= label < classes and value < IGNORED_LABEL:
            used[label] += count
        else:
            reason = (
                CUT
                if value > IGNORED_LABEL
                else UNLABELLED
                if value == IGNORED_LABEL or label < 0
                else UNKNOWN
            )
            left_out.setdefault(reason, {})[value] = count
    return used, left_out
