"""True and predicted instances in the formats of `pycocotools`, and COCO's evaluation."""

from __future__ import annotations

import contextlib
import io
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
        tested, known, notes = len(set(self.image_ids)), len(self.truth.imgs), []
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
        with contextlib.redirect_stdout(io.StringIO()):  # what pycocotools prints
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
        ResultsError: there are no annotations, or they have other images or classes.
    """
    ann_file, named = results.setting('ann_file'), results.origin.get('classes') or ()
    image_ids = [entry.get('img_id', index) for index, entry in enumerate(results.entries)]
    highest = max(
        (int(label) for entry in results.entries for label in entry['pred_instances']['labels']),
        default=-1,
    )
    results.names(len(named) or highest + 1)  # not more than can be analyzed
    ann_file = ann_file and results.file(ann_file)
    if ann_file is None:
        truth = _truth_of_entries(results, image_ids, highest)
    elif not Path(ann_file).is_file():
        raise FileNotFoundError(
            f'ann_file: {ann_file} of {results.path} does not exist. Run the command in the folder '
            'of the test, or pass a config with test_evaluator.ann_file with --config.'
        )
    else:
        with contextlib.redirect_stdout(io.StringIO()):
            truth = COCO(ann_file)
    unknown = [image_id for image_id in image_ids if image_id not in truth.imgs]
    if unknown:
        raise ResultsError(
            f'ann_file: {ann_file} has no image {unknown[0]} of {results.path}. Pass the config of'
            ' the tested model with --config.'
        )
    wanted = set(named)
    categories = [
        category['id']
        for category in truth.dataset['categories']
        if not wanted or category['name'] in wanted
    ]
    if highest >= len(categories) or (named and len(named) != len(categories)):
        raise ResultsError(
            f'ann_file: expected the {max(highest + 1, len(named))} classes of {results.path}, got '
            f'{len(categories)} in {ann_file}. Pass the config of the tested model with --config.'
        )
    masks = 'masks' in results.entries[0]['pred_instances']
    if masks and not all(
        can_be_drawn(item['segmentation'], truth.imgs[item['image_id']])
        for item in truth.dataset['annotations']
    ):
        raise ResultsError(
            f'ann_file: {ann_file} has a mask that does not fit its image, or none. Correct it.'
        )
    detections = {}
    for kind in ['bbox', 'segm'] if masks else ['bbox']:
        found = [
            annotation
            for image_id, entry in zip(image_ids, results.entries)
            for annotation in _annotations(
                entry['pred_instances'], image_id, categories, kind == 'segm'
            )
        ]
        detections[kind] = _coco(truth.dataset['images'], truth.dataset['categories'], found)
    return Instances(truth, categories, image_ids, detections)


def _annotations(
    instances: dict, image_id: int, categories: list[int] | range, masks: bool, crowd: int = 0
) -> list[dict]:
    """Return COCO annotations, whose area is that of the masks if these count."""
    annotations = []
    boxes = np.asarray(instances['bboxes']).astype(np.float64).reshape(-1, 4)
    boxes[:, 2:] -= boxes[:, :2]  # x1, y1, x2, y2 become x, y, width, height
    scores = (
        instances.get('mask_scores', instances.get('scores')) if masks else instances.get('scores')
    )
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


def _truth_of_entries(results: Results, image_ids: list[int], highest: int) -> COCO:
    require_truth(results.entries, 'gt_instances')
    truth = [
        (image_id, entry[kind], crowd)
        for image_id, entry in zip(image_ids, results.entries)
        for kind, crowd in (('gt_instances', 0), ('ignored_instances', 1))
        if entry.get(kind)
    ]
    highest = max(
        [highest, *(int(label) for _, instances, _ in truth for label in instances['labels'])]
    )
    names = results.names(len(results.origin.get('classes') or ()) or 1 + max(highest, 0))
    images = [
        dict(
            id=image_id,
            file_name=entry.get('img_path', ''),
            height=entry['ori_shape'][0],
            width=entry['ori_shape'][1],
        )
        for image_id, entry in zip(image_ids, results.entries)
    ]
    return _coco(
        images,
        [dict(id=label, name=name) for label, name in enumerate(names)],
        [
            annotation
            for image_id, instances, crowd in truth
            for annotation in _annotations(
                instances, image_id, range(highest + 1), 'masks' in instances, crowd
            )
        ],
    )


def _coco(images: list[dict], categories: list[dict], annotations: list[dict]) -> COCO:
    coco = COCO()
    coco.dataset = dict(
        images=images,
        categories=categories,
        annotations=[
            dict(annotation, id=number) for number, annotation in enumerate(annotations, 1)
        ],
    )
    with contextlib.redirect_stdout(io.StringIO()):
        coco.createIndex()
    return coco
