"""Analysis of detectors: AP by class and size, kinds of errors, confusions, calibration, and the worst images."""
from __future__ import annotations

import importlib.util

import numpy as np
from pycocotools import mask as coco_mask
from pycocotools.cocoeval import COCOeval

from mmflatten.results.analysis import Analysis, ResultTable, known_mean, most_confused, reliability
from mmflatten.results.coco import Instances, corner_boxes, read_instances
from mmflatten.results.figures import Bars, Confusion, Lines
from mmflatten.results.reading import Results

SUMMARY = ('mAP', 'mAP_50', 'mAP_75', 'mAP_s', 'mAP_m', 'mAP_l')
ALL_SIZES, MOST = 0, -1  # indices on COCO's axes: area range, maximum number of detections
MIN_IOU, BACKGROUND_IOU = 0.5, 0.1  # of confusions and TIDE
HAS_TIDE = importlib.util.find_spec('hotcoco') is not None  # an optional library
TIDE_KINDS = {
    'Cls': 'wrong class', 'Loc': 'badly placed', 'Both': 'badly placed, wrong class', 'Dupe': 'duplicate',
    'Bkg': 'background', 'Miss': 'missed', 'FP': 'all false positives', 'FN': 'all false negatives'}


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
    if not HAS_TIDE:
        analysis.notes.append('kinds of errors require hotcoco: pip install hotcoco')
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
    confidence, correct = _graded(evaluation)
    if len(confidence):
        calibration = reliability(confidence, correct)
        analysis.summary[f'{kind} expected calibration error'] = calibration.error
        analysis.figures[f'{kind}_reliability'] = calibration
    if HAS_TIDE and instances.detections[kind].anns:
        errors = _tide_table(instances, kind)
        analysis.tables[f'{kind}_errors'] = errors
        analysis.figures[f'{kind}_errors'] = Bars({row[0]: row[1] for row in errors.rows}, errors.header[1])


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


def _graded(evaluation: COCOeval) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of all detections, and True for those that match an instance of their class at IoU 0.5."""
    scores, correct = [np.empty(0)], [np.empty(0, dtype=bool)]
    for graded in filter(None, evaluation.evalImgs):
        if graded['aRng'] == evaluation.params.areaRng[ALL_SIZES]:
            counted = ~graded['dtIgnore'][0].astype(bool)
            scores.append(np.asarray(graded['dtScores'])[counted])
            correct.append(graded['dtMatches'][0][counted] > 0)
    return np.concatenate(scores), np.concatenate(correct)


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


def _tide_table(instances: Instances, kind: str) -> ResultTable:
    """Tabulate the AP at an IoU of 0.5, from 0 to 1, lost to each kind of error (TIDE, Bolya et al., 2020)."""
    import hotcoco
    truth = hotcoco.COCO(instances.truth.dataset)
    evaluation = hotcoco.COCOeval(truth, truth.load_res(instances.detections[kind].dataset['annotations']), kind)
    evaluation.params.cat_ids = instances.categories
    evaluation.evaluate()
    errors = evaluation.tide_errors(MIN_IOU, BACKGROUND_IOU)
    rows = [(title, errors['delta_ap'][name], errors['counts'].get(name, np.nan)) for name, title in TIDE_KINDS.items()]
    return ResultTable(f'{kind}: what each kind of error costs, AP at 0.5 (TIDE)', ('error', 'AP lost', 'number'), rows)
