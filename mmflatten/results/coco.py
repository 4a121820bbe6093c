"""Predicted and true instances in the formats of `pycocotools`."""
from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO

from mmflatten.results.reading import Results, ResultsError, require_truth


@dataclass(frozen=True)
class Instances:
    """True instances, and detections in COCO's result format.

    Attributes:
        coco: annotations of the test.
        categories: category id of each label.
        image_ids: image id of each entry of the results.
        detections: lists of dictionaries for 'bbox' and, if there are masks, 'segm'.
    """

    coco: COCO
    categories: list[int]
    image_ids: list[int]
    detections: dict[str, list[dict]]

    @property
    def names(self) -> list[str]:
        return [self.coco.cats[category]['name'] for category in self.categories]

    def notes(self) -> list[str]:
        """Report images without predictions and repeated images, which AP and confusions count differently."""
        tested, known = set(self.image_ids), len(self.coco.imgs)
        notes = []
        if len(tested) < known:
            notes.append(f'{known - len(tested)} of {known} annotated images have no prediction: AP counts their '
                         'objects as missed, confusions ignore them')
        if len(tested) < len(self.image_ids):
            notes.append(f'{len(self.image_ids) - len(tested)} of {len(self.image_ids)} predictions repeat an img_id: '
                         'AP merges them, confusions count the objects of the image for each')
        return notes

    @classmethod
    def of(cls, results: Results) -> Instances:
        """Read the annotation file of the test, or the annotations in the results if there is no file.

        Raises:
            FileNotFoundError: the annotation file does not exist.
            ResultsError: there are no annotations, or they have other images or classes.
        """
        ann_file = results.setting('ann_file')
        if ann_file is None:
            require_truth(results.entries, 'gt_instances')
        elif not Path(ann_file).is_file():
            raise FileNotFoundError(f'ann_file: {ann_file} of {results.path} does not exist. Run the command in the '
                                    'folder of the test, or pass a config with test_evaluator.ann_file with --config.')
        image_ids = [entry.get('img_id', index) for index, entry in enumerate(results.entries)]
        with contextlib.redirect_stdout(io.StringIO()):  # what pycocotools prints
            coco = COCO(ann_file) if ann_file else _from_entries(results, image_ids)
            names = results.origin.get('classes')
            categories = coco.getCatIds(list(names)) if names else coco.getCatIds()
        _require_fit(results, coco, image_ids, len(categories))
        kinds = ['bbox', 'segm'] if 'masks' in results.entries[0]['pred_instances'] else ['bbox']
        return cls(coco, categories, image_ids,
                   {kind: _detections(results.entries, image_ids, categories, kind) for kind in kinds})

    def loaded(self, kind: str) -> COCO:
        """Load the detections with `pycocotools`."""
        with contextlib.redirect_stdout(io.StringIO()):
            if self.detections[kind]:
                return self.coco.loadRes([dict(item) for item in self.detections[kind]])  # loadRes changes its argument
            empty = COCO()
            empty.dataset = {**self.coco.dataset, 'annotations': []}
            empty.createIndex()
            return empty


def corner_boxes(instances: dict[str, Any]) -> np.ndarray:
    """Convert boxes (n, 4) from x1, y1, x2, y2 to x, y, width, height."""
    boxes = np.asarray(instances['bboxes']).astype(np.float64).reshape(-1, 4)
    boxes[:, 2:] -= boxes[:, :2]
    return boxes


def _detections(entries: Sequence[dict], image_ids: Sequence[int], categories: Sequence[int],
                kind: str) -> list[dict]:
    detections = []
    for image_id, entry in zip(image_ids, entries):
        instances = entry['pred_instances']
        scores = instances.get('mask_scores', instances['scores']) if kind == 'segm' else instances['scores']
        # COCO takes the area from the box if there is one, so masks are passed without boxes.
        shapes = [dict(segmentation=mask) for mask in instances['masks']] if kind == 'segm' else [
            dict(bbox=box) for box in corner_boxes(instances).tolist()]
        detections += [dict(image_id=image_id, category_id=categories[int(label)], score=float(score), **shape)
                  for label, score, shape in zip(instances['labels'], scores, shapes)]
    return detections


def _from_entries(results: Results, image_ids: Sequence[int]) -> COCO:
    annotations = []
    for image_id, entry in zip(image_ids, results.entries):
        for kind, crowd in (('gt_instances', 0), ('ignored_instances', 1)):
            truth = entry.get(kind) or dict(bboxes=[], labels=[])
            for index, (box, label) in enumerate(zip(corner_boxes(truth).tolist(), truth['labels'])):
                mask = truth['masks'][index] if 'masks' in truth else None
                area = float(coco_mask.area(mask)) if mask else box[2] * box[3]
                annotations.append(dict(id=len(annotations) + 1, image_id=image_id, category_id=int(label), bbox=box,
                                        area=area, iscrowd=crowd, **(dict(segmentation=mask) if mask else {})))
    labels = [int(label) for entry in results.entries for label in entry['pred_instances']['labels']]
    names = results.names(len(results.origin.get('classes') or ()) or 1 + max(
        [*labels, *(annotation['category_id'] for annotation in annotations)], default=0))
    coco = COCO()
    coco.dataset = dict(
        images=[dict(id=image_id, file_name=entry.get('img_path', ''), height=entry['ori_shape'][0],
                     width=entry['ori_shape'][1]) for image_id, entry in zip(image_ids, results.entries)],
        categories=[dict(id=label, name=name) for label, name in enumerate(names)], annotations=annotations)
    coco.createIndex()
    return coco


def _require_fit(results: Results, coco: COCO, image_ids: Sequence[int], classes: int) -> None:
    unknown = [image_id for image_id in image_ids if image_id not in coco.imgs]
    if unknown:
        raise ResultsError(f'ann_file: {results.setting("ann_file")} has no image {unknown[0]} of {results.path}. Pass '
                           'the config of the tested model with --config.')
    highest = max((int(label) for entry in results.entries for label in entry['pred_instances']['labels']), default=-1)
    named = results.origin.get('classes') or ()
    if highest >= classes or (named and len(named) != classes):
        raise ResultsError(f'ann_file: expected the {max(highest + 1, len(named))} classes of {results.path}, got '
                           f'{classes} in {results.setting("ann_file")}. Pass the config of the tested model with '
                           '--config.')
