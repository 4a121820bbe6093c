"""Analysis of detectors: AP by class and size, and the worst images."""

from __future__ import annotations

from collections import Counter

import numpy as np
from pycocotools.cocoeval import COCOeval

from mmflatten.results.analysis import Analysis, ResultTable, known_mean
from mmflatten.results.coco import Instances, read_instances
from mmflatten.results.figures import Lines
from mmflatten.results.reading import Results

SUMMARY = ('mAP', 'mAP_50', 'mAP_75', 'mAP_s', 'mAP_m', 'mAP_l')
# indices on COCO's axes
ALL_SIZES = 0  # area range
MOST = -1  # maximum number of detections
AT_50 = 0  # overlap


def analyze(results: Results, worst: int, score: float) -> Analysis:
    """Analyze boxes and, if available, masks with COCO's evaluation."""
    instances = read_instances(results)
    analysis = Analysis(
        task='detection',
        images=len(results.entries),
        summary={},
        worst_by=f'errors at a score of {score:g}',
        worst=[],
        notes=instances.notes(),
    )
    for kind in instances.detections:
        evaluation = instances.evaluate(kind)
        _add_kind(analysis, instances, evaluation, kind=kind)
        if kind == 'bbox':
            counted = count_errors(evaluation, score)
            errors = np.array([counted[image] for image in instances.image_ids])
            order = np.argsort(-errors, kind='stable')[:worst]
            analysis.worst = [(int(index), int(errors[index])) for index in order if errors[index]]
    return analysis


def _add_kind(analysis: Analysis, instances: Instances, evaluation: COCOeval, kind: str) -> None:
    """Add metrics, tables and figures of 'bbox' or 'segm'."""
    for name, value in zip(SUMMARY, evaluation.stats):
        analysis.summary[f'{kind}_{name}'] = value if value >= 0 else np.nan
    analysis.tables[f'{kind}_classes'] = _class_table(instances, evaluation, kind)
    # precision: (overlap, recall, class, size, number of detections)
    curves = evaluation.eval['precision'][AT_50, :, :, ALL_SIZES, MOST]
    present = curves.min(0) >= 0
    if not present.any():
        return
    recall = evaluation.params.recThrs
    lines = {}
    for label, name in enumerate(instances.names):
        if present[label]:
            lines[name] = recall, curves[:, label]
    lines['mean'] = recall, curves[:, present].mean(1)
    analysis.figures[f'{kind}_precision_recall'] = Lines(
        lines=lines, x_label='recall', y_label='precision', limits=(0, 1.02), mean='mean'
    )


def _class_table(instances: Instances, evaluation: COCOeval, kind: str) -> ResultTable:
    precision = _defined(evaluation.eval['precision'])
    recall = _defined(evaluation.eval['recall'])
    overlaps = evaluation.params.iouThrs
    at_50 = np.flatnonzero(np.isclose(overlaps, 0.5))
    at_75 = np.flatnonzero(np.isclose(overlaps, 0.75))
    rows = []
    for label, (category, name) in enumerate(zip(instances.categories, instances.names)):
        objects = instances.truth.loadAnns(instances.truth.getAnnIds(catIds=[category]))
        by_size = [known_mean(precision[:, :, label, size, MOST]) for size in range(4)]
        row = [
            name,
            sum(not item.get('iscrowd') for item in objects),
            by_size[ALL_SIZES],
            known_mean(precision[at_50, :, label, ALL_SIZES, MOST]),
            known_mean(precision[at_75, :, label, ALL_SIZES, MOST]),
            *by_size[1:],
            known_mean(recall[:, label, ALL_SIZES, MOST]),
        ]
        rows.append(tuple(row))
    rows.sort(key=lambda row: np.nan_to_num(row[2], nan=2))  # without objects last
    return ResultTable(
        title=f'{kind}: classes, the lowest AP first',
        header=(
            'class',
            'objects',
            'AP',
            'AP50',
            'AP75',
            'AP small',
            'AP medium',
            'AP large',
            'recall',
        ),
        rows=rows,
    )


def _defined(values: np.ndarray) -> np.ndarray:
    """Replace -1, by which COCO marks undefined values, by NaN."""
    return np.where(values > -1, values, np.nan)


def count_errors(evaluation: COCOeval, score: float) -> Counter:
    """Count missed objects and false detections by id of the image, in COCO's matches at an IoU of
    0.5.

    Detections below the score do not count. A detection of a wrong class counts twice, because the
    object is also missed.
    """
    errors: Counter = Counter()
    all_sizes = evaluation.params.areaRng[ALL_SIZES]
    for found in evaluation.evalImgs:  # of one class, range of sizes and image
        if found is None or found['aRng'] != all_sizes:
            continue
        matched = found['dtMatches'][AT_50]
        kept = np.array(found['dtScores']) >= score
        ignored_truth = np.array(found['gtIgnore'], dtype=bool)
        ignored_detections = found['dtIgnore'][AT_50].astype(bool)
        missed = ~np.isin(found['gtIds'], matched[kept]) & ~ignored_truth
        false = kept & (matched == 0) & ~ignored_detections
        errors[found['image_id']] += int(missed.sum() + false.sum())
    return errors
