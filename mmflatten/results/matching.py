"""Matching of predicted to true instances, independent of their classes."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pycocotools import mask as coco_mask

from mmflatten.results.coco import Instances, corner_boxes
from mmflatten.results.reading import Results

MIN_IOU = 0.5


@dataclass(frozen=True)
class Matches:
    """Confusions of instances by boxes.

    Attributes:
        matrix: (classes + 1, classes + 1) counts; true classes are rows, predicted classes are columns. The last index
            is the background: its column counts missed instances, its row false positives.
        errors: (images,) missed, false positive and misclassified instances of each image.
    """

    matrix: np.ndarray
    errors: np.ndarray


def match_instances(results: Results, instances: Instances, score: float) -> Matches:
    """Match predictions with at least this score to true boxes with an IoU of at least `MIN_IOU`.

    As in COCO's evaluation, predictions match in the order of their scores, each true box matches once, and predictions
    inside a crowd of their class are ignored. Unlike there, the classes of a match may differ.
    """
    background = len(instances.categories)
    matrix = np.zeros((background + 1, background + 1), dtype=np.int64)
    errors = np.zeros(len(results.entries), dtype=np.int64)
    label_of = {category: label for label, category in enumerate(instances.categories)}
    for index, (image_id, entry) in enumerate(zip(instances.image_ids, results.entries)):
        truth = [item for item in instances.coco.imgToAnns[image_id] if item['category_id'] in label_of]
        labels = [label_of[item['category_id']] for item in truth]
        pairs = _pairs(entry['pred_instances'], truth, labels, score)
        for predicted, true in pairs:
            row = background if true is None else labels[true]
            column = background if predicted is None else int(entry['pred_instances']['labels'][predicted])
            matrix[row, column] += 1
            errors[index] += row != column
    return Matches(matrix, errors)


def _pairs(predictions: dict, truth: list[dict], labels: list[int],
           score: float) -> list[tuple[int | None, int | None]]:
    """Return pairs of predicted and true indices; None marks a missing partner. Crowds are in no pair."""
    scores = np.asarray(predictions['scores'], dtype=np.float64)
    order = [index for index in np.argsort(-scores, kind='stable') if scores[index] >= score]
    crowds = [int(item.get('iscrowd', 0)) for item in truth]
    crowd_labels = [label if crowd else None for crowd, label in zip(crowds, labels)]
    true_boxes = np.array([item['bbox'] for item in truth], dtype=np.float64).reshape(-1, 4)
    unmatched, pairs = {index for index, crowd in enumerate(crowds) if not crowd}, []
    overlaps = coco_mask.iou(corner_boxes(predictions)[order], true_boxes, crowds) if order and truth else None
    for place, index in enumerate(order):
        overlap = np.zeros(len(truth)) if overlaps is None else overlaps[place]
        best = max(unmatched, key=lambda true: overlap[true], default=None)
        if best is not None and overlap[best] >= MIN_IOU:
            unmatched.remove(best)
            pairs.append((int(index), best))
        elif not any(overlap[true] >= MIN_IOU and label == int(predictions['labels'][index])
                     for true, label in enumerate(crowd_labels)):
            pairs.append((int(index), None))
    return pairs + [(None, true) for true in sorted(unmatched)]
