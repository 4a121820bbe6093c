"""True and predicted instances in the formats of `pycocotools`, and COCO's evaluation."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from mmflatten.datasets.masks import can_be_drawn
from mmflatten.results.reading import Results, ResultsError, require_truth

MAX_DETECTIONS = (100, 300, 1000)  # as in mmdet


@dataclass(frozen=True)
class Instances:
    """True instances, and detections as annotations with a score."""

    truth: COCO
    categories: list[int]  # id of each label
    image_ids: list[int]  # id of each entry of the results
    detections: dict[str, COCO]  # for 'bbox' and, if there are masks, 'segm'

    @property
    def names(self) -> list[str]:
        return [self.truth.cats[category]['name'] for category in self.categories]

    def notes(self) -> list[str]:
        """Report images without predictions and repeated images."""
        notes = []
        tested, known = len(set(self.image_ids)), len(self.truth.imgs)
        if tested < known:
            notes.append(
                f'{known - tested} of {known} annotated images have no prediction: their objects '
                'count as missed'
            )
        if tested < len(self.image_ids):
            notes.append(
                f'{len(self.image_ids) - tested} of {len(self.image_ids)} predictions repeat an'
                ' img_id: they are merged'
            )
        return notes

    def evaluate(self, kind: str) -> COCOeval:
        """Run COCO's evaluation of 'bbox' or 'segm' with mmdet's settings."""
        with contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints the metrics
            evaluation = COCOeval(self.truth, self.detections[kind], kind)
            evaluation.params.catIds = self.categories
            evaluation.params.imgIds = self.truth.getImgIds()
            evaluation.params.maxDets = list(MAX_DETECTIONS)
            evaluation.evaluate()
            evaluation.accumulate()
            evaluation.summarize()
        return evaluation


def read_instances(results: Results) -> Instances:
    """Read the annotation file of the test, or the annotations in the results if there is no file.

    Raises:
        FileNotFoundError: the annotation file does not exist.
        ResultsError: annotations are missing, or their images or classes differ.
    """
    image_ids = [entry.get('img_id', index) for index, entry in enumerate(results.entries)]
    named = results.origin.get('classes') or ()
    highest = _highest_label([entry['pred_instances'] for entry in results.entries])
    results.names(len(named) or highest + 1)  # an error for more classes than can be analyzed
    ann_file = results.setting('ann_file')
    if ann_file is None:
        truth = _truth_of_entries(results, image_ids, highest)
    else:
        ann_file = results.file(ann_file)
        truth = _read_truth(results, ann_file)
    _require_images(truth, image_ids, ann_file=ann_file, path=results.path)
    categories = _category_ids(truth, named, highest=highest, ann_file=ann_file, path=results.path)

    kinds = ['bbox']
    if 'masks' in results.entries[0]['pred_instances']:
        _require_masks(truth, ann_file)
        kinds.append('segm')
    detections = {}
    for kind in kinds:
        found = []
        for image_id, entry in zip(image_ids, results.entries):
            found += _annotations(
                entry['pred_instances'],
                image_id=image_id,
                categories=categories,
                masks=kind == 'segm',
            )
        detections[kind] = _coco(truth.dataset['images'], truth.dataset['categories'], found)
    return Instances(truth=truth, categories=categories, image_ids=image_ids, detections=detections)


def _highest_label(instances: Sequence[dict]) -> int:
    """Return the highest label of all instances; -1 if there are none."""
    highest = -1
    for item in instances:
        highest = max([highest, *map(int, item['labels'])])
    return highest


def _read_truth(results: Results, ann_file: str) -> COCO:
    if not Path(ann_file).is_file():
        raise FileNotFoundError(
            f'ann_file: {ann_file} of {results.path} does not exist. Run the command in the folder '
            'of the test, or pass a config with test_evaluator.ann_file with --config.'
        )
    with contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints its progress
        return COCO(ann_file)


def _truth_of_entries(results: Results, image_ids: Sequence[int], highest: int) -> COCO:
    """Return the annotations in the entries; ignored instances are crowds."""
    require_truth(results.entries, 'gt_instances')
    truth = []  # image, instances and iscrowd
    for image_id, entry in zip(image_ids, results.entries):
        truth.append((image_id, entry['gt_instances'], 0))
        truth.append((image_id, entry.get('ignored_instances'), 1))
    truth = [item for item in truth if item[1]]
    highest = max(highest, _highest_label([instances for _, instances, _ in truth]))
    names = results.names(len(results.origin.get('classes') or ()) or 1 + max(highest, 0))
    images = []
    for image_id, entry in zip(image_ids, results.entries):
        height, width = entry['ori_shape'][:2]
        file_name = entry.get('img_path', '')
        images.append(dict(id=image_id, file_name=file_name, height=height, width=width))
    annotations = []
    for image_id, instances, crowd in truth:
        annotations += _annotations(
            instances,
            image_id=image_id,
            categories=range(highest + 1),
            masks='masks' in instances,
            crowd=crowd,
        )
    categories = [dict(id=label, name=name) for label, name in enumerate(names)]
    return _coco(images, categories, annotations)


def _require_images(
    truth: COCO, image_ids: Sequence[int], ann_file: str | None, path: Path
) -> None:
    unknown = [image_id for image_id in image_ids if image_id not in truth.imgs]
    if unknown:
        raise ResultsError(
            f'ann_file: {ann_file} has no image {unknown[0]} of {path}. Pass the config of'
            ' the tested model with --config.'
        )


def _category_ids(
    truth: COCO, named: Sequence[str], highest: int, ann_file: str | None, path: Path
) -> list[int]:
    """Return the id of each label: the categories of the test's classes in the order of the
    file.
    """
    wanted = set(named)
    categories = []
    for category in truth.dataset['categories']:
        if not wanted or category['name'] in wanted:
            categories.append(category['id'])
    if highest >= len(categories) or (named and len(named) != len(categories)):
        raise ResultsError(
            f'ann_file: expected the {max(highest + 1, len(named))} classes of {path}, got '
            f'{len(categories)} in {ann_file}. Pass the config of the tested model with --config.'
        )
    return categories


def _require_masks(truth: COCO, ann_file: str | None) -> None:
    for item in truth.dataset['annotations']:
        if not can_be_drawn(item['segmentation'], truth.imgs[item['image_id']]):
            raise ResultsError(
                f'ann_file: {ann_file} has a mask that does not fit its image, or none. Correct it.'
            )


def _annotations(
    instances: dict,
    image_id: int,
    categories: Sequence[int],
    masks: bool,
    crowd: int = 0,
) -> list[dict]:
    """Return COCO annotations; with `masks`, their area is that of the masks."""
    boxes = np.asarray(instances['bboxes']).astype(np.float64).reshape(-1, 4)
    boxes[:, 2:] -= boxes[:, :2]  # x1, y1, x2, y2 become x, y, width, height
    scores = instances.get('scores')
    if masks:
        scores = instances.get('mask_scores', scores)
    annotations = []
    for index, (box, label) in enumerate(zip(boxes.tolist(), instances['labels'])):
        annotation = dict(
            image_id=image_id,
            category_id=categories[int(label)],
            bbox=box,
            area=box[2] * box[3],
            iscrowd=crowd,
        )
        if masks:
            mask = instances['masks'][index]
            annotation.update(segmentation=mask, area=float(coco_mask.area(mask)))
        if scores is not None:
            annotation.update(score=float(scores[index]))
        annotations.append(annotation)
    return annotations


def _coco(images: list[dict], categories: list[dict], annotations: list[dict]) -> COCO:
    """Return annotations, numbered from 1, as `pycocotools` reads them from a file."""
    numbered = [dict(annotation, id=number) for number, annotation in enumerate(annotations, 1)]
    coco = COCO()
    coco.dataset = dict(images=images, categories=categories, annotations=numbered)
    with contextlib.redirect_stdout(io.StringIO()):
        coco.createIndex()
    return coco
