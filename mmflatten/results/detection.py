"""Analysis of detectors: AP by class and size, confusions, and the worst images."""
from __future__ import annotations

import numpy as np
from pycocotools import mask as coco_mask
from pycocotools.cocoeval import COCOeval

from mmflatten.results.analysis import Analysis, ResultTable, known_mean, most_confused
from mmflatten.results.coco import Instances, corner_boxes, read_instances
from mmflatten.results.figures import Confusion, Lines
from mmflatten.results.reading import Results

SUMMARY = ('mAP', 'mAP_50', 'mAP_75', 'mAP_s', 'mAP_m', 'mAP_l')
ALL_SIZES, MOST = 0, -1  # indices on COCO's axes: area range, maximum number of detections
MIN_IOU = 0.5  # of confusions


def analyze(results: Results, worst: int, score: float) -> Analysis:
    """Analyze boxes and, if available, masks with COCO's evaluation."""
    instances = read_instances(results)
    matrix, errors = count_confusions(results, instances, score)
    names = [*instances.names, 'background']
    order = np.argsort(-errors, kind='stable')[:worst]
    analysis = Analysis(
        'detection', len(results.entries), {}, f'errors at a score of {score:g}',
        [(int(index), int(errors[index])) for index in order if errors[index]],
        figures=dict(confusion=Confusion(matrix, names)), notes=instances.notes())
    for kind in instances.detections:
        _add_kind(analysis, instances, kind)
    analysis.tables['confusions'] = most_confused(matrix, names)
    return analysis


def _add_kind(analysis: Analysis, instances: Instances, kind: str) -> None:
    """Add metrics, tables and figures of 'bbox' or 'segm'."""
    evaluation = instances.evaluate(kind)
    analysis.summary.update({f'{kind}_{name}': value if value >= 0 else np.nan
                             for name, value in zip(SUMMARY, evaluation.stats)})
    analysis.tables[f'{kind}_classes'] = _class_table(instances, evaluation, kind)
    # precision: (overlap, recall, class, size, number of detections)
    curves = evaluation.eval['precision'][0, :, :, ALL_SIZES, MOST]
    present = curves.min(0) >= 0
    if present.any():
        precision = {name: curves[:, label] for label, name in enumerate(instances.names) if present[label]}
        precision['mean'] = curves[:, present].mean(1)
        analysis.figures[f'{kind}_precision_recall'] = Lines(
            {name: (evaluation.params.recThrs, values) for name, values in precision.items()}, 'recall', 'precision',
            limits=(0, 1.02), mean='mean')


def _class_table(instances: Instances, evaluation: COCOeval, kind: str) -> ResultTable:
    # COCO marks undefined values by -1.
    precision, recall = (np.where(values > -1, values, np.nan)
                         for values in (evaluation.eval['precision'], evaluation.eval['recall']))
    at_50, at_75 = (np.flatnonzero(np.isclose(evaluation.params.iouThrs, overlap)) for overlap in (.5, .75))
    rows = []
    for label, (category, name) in enumerate(zip(instances.categories, instances.names)):
        objects = instances.truth.loadAnns(instances.truth.getAnnIds(catIds=[category]))
        sizes = [known_mean(precision[:, :, label, size, MOST]) for size in range(4)]
        rows.append((name, sum(not item.get('iscrowd') for item in objects), sizes[ALL_SIZES],
                     *(known_mean(precision[at, :, label, ALL_SIZES, MOST]) for at in (at_50, at_75)), *sizes[1:],
                     known_mean(recall[:, label, ALL_SIZES, MOST])))
    rows.sort(key=lambda row: np.nan_to_num(row[2], nan=2))
    return ResultTable(f'{kind}: classes, the lowest AP first',
                       ('class', 'objects', 'AP', 'AP50', 'AP75', 'AP small', 'AP medium', 'AP large', 'recall'), rows)


def count_confusions(results: Results, instances: Instances, score: float) -> tuple[np.ndarray, np.ndarray]:
    """Match predictions with at least this score to true boxes with an IoU of at least `MIN_IOU`.

    As in COCO's evaluation, predictions match in the order of their scores, each true box matches once, and predictions
    inside a crowd of their class are ignored. Unlike there, the classes of a match may differ.

    Returns:
        Counts (classes + 1, classes + 1): true classes are rows, predicted classes are columns. The last index is the
        background: its column counts missed instances, its row false positives. Then (images,) the number of missed,
        false positive and misclassified instances of each image.
    """
    background = len(instances.categories)
    matrix = np.zeros((background + 1, background + 1), dtype=np.int64)
    errors = np.zeros(len(results.entries), dtype=np.int64)
    label_of = {category: label for label, category in enumerate(instances.categories)}
    for index, (image_id, entry) in enumerate(zip(instances.image_ids, results.entries)):
        truth = [item for item in instances.truth.imgToAnns[image_id] if item['category_id'] in label_of]
        labels = np.array([label_of[item['category_id']] for item in truth], dtype=np.int64)
        for true, predicted in _matches(entry['pred_instances'], truth, labels, score, background):
            matrix[true, predicted] += 1
            errors[index] += true != predicted
    return matrix, errors


def _matches(predictions: dict, truth: list[dict], labels: np.ndarray, score: float,
             background: int) -> list[tuple[int, int]]:
    """Return the true and predicted label of each match, `background` for a missing partner. Crowds do not match."""
    scores = np.asarray(predictions['scores'], dtype=np.float64)
    order = [index for index in np.argsort(-scores, kind='stable') if scores[index] >= score]
    crowds = np.array([item.get('iscrowd', 0) for item in truth], dtype=np.uint8)
    boxes = np.array([item['bbox'] for item in truth], dtype=np.float64).reshape(-1, 4)
    overlaps = np.zeros((len(order), len(truth)))
    if overlaps.size:
        overlaps = coco_mask.iou(corner_boxes(predictions)[order], boxes, crowds)
    unmatched, matches = crowds == 0, []
    for predicted, overlap in zip(np.asarray(predictions['labels'])[order], overlaps):
        candidates = np.where(unmatched & (overlap >= MIN_IOU), overlap, 0)
        if candidates.any():
            matches.append((labels[candidates.argmax()], predicted))
            unmatched[candidates.argmax()] = False
        elif not np.any(crowds & (overlap >= MIN_IOU) & (labels == predicted)):
            matches.append((background, predicted))
    return matches + [(true, background) for true in labels[unmatched]]
