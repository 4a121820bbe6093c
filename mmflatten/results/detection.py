"""Analysis of detectors: AP by class and size, kinds of errors, confusions, calibration, and the worst images."""
from __future__ import annotations

import contextlib
import io

import numpy as np
from pycocotools.cocoeval import COCOeval

from mmflatten.results import tide
from mmflatten.results.analysis import Analysis, ResultTable
from mmflatten.results.calibration import reliability
from mmflatten.results.coco import Instances
from mmflatten.results.confusion import most_confused
from mmflatten.results.figures import Bars, Confusion, PrecisionRecall
from mmflatten.results.matching import match_instances
from mmflatten.results.reading import Results

SUMMARY = ('mAP', 'mAP_50', 'mAP_75', 'mAP_s', 'mAP_m', 'mAP_l')
MAX_DETECTIONS = (100, 300, 1000)  # as in mmdet
ALL_SIZES, MOST = 0, -1  # indices on COCO's axes: area range, maximum number of detections
BACKGROUND = 'background'


def analyze(results: Results, worst: int, score: float) -> Analysis:
    """Analyze boxes and, if available, masks with COCO's evaluation.

    Args:
        score: minimum score of predictions in confusions and worst images.

    Raises:
        FileNotFoundError: the annotation file does not exist.
        ResultsError: annotations are missing or do not fit.
    """
    instances = Instances.of(results)
    matches = match_instances(results, instances, score)
    names = [*instances.names, BACKGROUND]
    order = np.argsort(-matches.errors, kind='stable')[:worst]
    analysis = Analysis(
        'detection', len(results.entries), {}, f'errors at a score of {score:g}',
        [(int(index), int(matches.errors[index])) for index in order if matches.errors[index]],
        figures=dict(confusion=Confusion(matches.matrix, names)), notes=instances.notes())
    for kind in instances.detections:
        _add_kind(analysis, instances, kind)
    analysis.tables['confusions'] = most_confused(matches.matrix, names)
    if not tide.is_installed():
        analysis.notes.append('kinds of errors require tidecv: pip install tidecv')
    return analysis


def evaluate(instances: Instances, kind: str) -> COCOeval:
    """Run COCO's evaluation with mmdet's settings."""
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation = COCOeval(instances.coco, instances.loaded(kind), kind)
        evaluation.params.catIds = instances.categories
        evaluation.params.imgIds = instances.coco.getImgIds()
        evaluation.params.maxDets = list(MAX_DETECTIONS)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation


def _add_kind(analysis: Analysis, instances: Instances, kind: str) -> None:
    """Add metrics, tables and figures of 'bbox' or 'segm'."""
    evaluation = evaluate(instances, kind)
    analysis.summary.update({f'{kind}_{name}': value if value >= 0 else np.nan
                          for name, value in zip(SUMMARY, evaluation.stats)})
    analysis.tables[f'{kind}_classes'] = _class_table(instances, evaluation, kind)
    # precision: (overlap, recall, class, size, number of detections)
    curves = evaluation.eval['precision'][0, :, :, ALL_SIZES, MOST]
    present = curves.min(0) >= 0
    if present.any():
        precision = {name: curves[:, label] for label, name in enumerate(instances.names) if present[label]}
        precision['mean'] = curves[:, present].mean(1)
        analysis.figures[f'{kind}_precision_recall'] = PrecisionRecall(
            evaluation.params.recThrs, precision, 'mean')
    confidence, correct = _graded(evaluation)
    if len(confidence):
        calibration = reliability(confidence, correct)
        analysis.summary[f'{kind} expected calibration error'] = calibration.error
        analysis.figures[f'{kind}_reliability'] = calibration
    if tide.is_installed() and instances.detections[kind]:
        errors = tide.error_table(instances, kind)
        analysis.tables[f'{kind}_errors'] = errors
        analysis.figures[f'{kind}_errors'] = Bars({row[0]: row[1] for row in errors.rows}, errors.header[1])


def _class_table(instances: Instances, evaluation: COCOeval, kind: str) -> ResultTable:
    precision, recall = evaluation.eval['precision'], evaluation.eval['recall']
    overlaps = evaluation.params.iouThrs
    rows = []
    for label, (category, name) in enumerate(zip(instances.categories, instances.names)):
        number = sum(not item.get('iscrowd') for item in instances.coco.loadAnns(
            instances.coco.getAnnIds(catIds=[category])))
        at = {float(round(overlap, 2)): precision[index, :, label, ALL_SIZES, MOST]
              for index, overlap in enumerate(overlaps)}
        sizes = [_mean(precision[:, :, label, size, MOST]) for size in range(4)]
        rows.append((name, number, sizes[ALL_SIZES], _mean(at[0.5]), _mean(at[0.75]), *sizes[1:],
                     _mean(recall[:, label, ALL_SIZES, MOST])))
    rows.sort(key=lambda row: np.nan_to_num(row[2], nan=2))
    return ResultTable(f'{kind}: classes, the lowest AP first',
                 ('class', 'objects', 'AP', 'AP50', 'AP75', 'AP small', 'AP medium', 'AP large', 'recall'), rows)


def _mean(values: np.ndarray) -> float:
    """Return the mean without -1, by which COCO marks undefined values."""
    known = values[values > -1]
    return float(known.mean()) if known.size else float('nan')


def _graded(evaluation: COCOeval) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of all detections, and True for those that match an instance of their class at IoU 0.5."""
    images, sizes = len(evaluation.params.imgIds), len(evaluation.params.areaRng)
    scores, correct = [np.empty(0)], [np.empty(0, dtype=bool)]
    for index, graded in enumerate(evaluation.evalImgs):  # ordered by class, size, image
        if graded is not None and index // images % sizes == ALL_SIZES:
            counted = ~graded['dtIgnore'][0].astype(bool)
            scores.append(np.asarray(graded['dtScores'])[counted])
            correct.append(graded['dtMatches'][0][counted] > 0)
    return np.concatenate(scores), np.concatenate(correct)
