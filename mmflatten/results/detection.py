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
ALL_SIZES, MOST = 0, -1  # indices on COCO's axes: area range, maximum number of detections
AT_50 = 0  # index on COCO's axis of overlaps


def analyze(results: Results, worst: int, score: float) -> Analysis:
    """Analyze boxes and, if available, masks with COCO's evaluation."""
    instances = read_instances(results)
    analysis = Analysis(
        'detection',
        len(results.entries),
        {},
        f'errors at a score of {score:g}',
        [],
        notes=instances.notes(),
    )
    for kind in instances.detections:
        evaluation = instances.evaluate(kind)
        _add_kind(analysis, instances, evaluation, kind)
        if kind == 'bbox':
            counted = count_errors(evaluation, score)
            errors = np.array([counted[image] for image in instances.image_ids])
            analysis.worst = [
                (int(index), int(errors[index]))
                for index in np.argsort(-errors, kind='stable')[:worst]
                if errors[index]
            ]
    return analysis


def _add_kind(analysis: Analysis, instances: Instances, evaluation: COCOeval, kind: str) -> None:
    """Add metrics, tables and figures of 'bbox' or 'segm'."""
    analysis.summary.update(
        {
            f'{kind}_{name}': value if value >= 0 else np.nan
            for name, value in zip(SUMMARY, evaluation.stats)
        }
    )
    analysis.tables[f'{kind}_classes'] = _class_table(instances, evaluation, kind)
    # precision: (overlap, recall, class, size, number of detections)
    curves = evaluation.eval['precision'][0, :, :, ALL_SIZES, MOST]
    present = curves.min(0) >= 0
    if present.any():
        precision = {
            name: curves[:, label] for label, name in enumerate(instances.names) if present[label]
        }
        precision['mean'] = curves[:, present].mean(1)
        analysis.figures[f'{kind}_precision_recall'] = Lines(
            {name: (evaluation.params.recThrs, values) for name, values in precision.items()},
            'recall',
            'precision',
            limits=(0, 1.02),
            mean='mean',
        )


def _class_table(instances: Instances, evaluation: COCOeval, kind: str) -> ResultTable:
    # COCO marks undefined values by -1.
    precision, recall = (
        np.where(values > -1, values, np.nan)
        for values in (evaluation.eval['precision'], evaluation.eval['recall'])
    )
    at_50, at_75 = (
        np.flatnonzero(np.isclose(evaluation.params.iouThrs, overlap)) for overlap in (0.5, 0.75)
    )
    rows = []
    for label, (category, name) in enumerate(zip(instances.categories, instances.names)):
        objects = instances.truth.loadAnns(instances.truth.getAnnIds(catIds=[category]))
        sizes = [known_mean(precision[:, :, label, size, MOST]) for size in range(4)]
        rows.append(
            (
                name,
                sum(not item.get('iscrowd') for item in objects),
                sizes[ALL_SIZES],
                *(known_mean(precision[at, :, label, ALL_SIZES, MOST]) for at in (at_50, at_75)),
                *sizes[1:],
                known_mean(recall[:, label, ALL_SIZES, MOST]),
            )
        )
    rows.sort(key=lambda row: np.nan_to_num(row[2], nan=2))
    return ResultTable(
        f'{kind}: classes, the lowest AP first',
        ('class', 'objects', 'AP', 'AP50', 'AP75', 'AP small', 'AP medium', 'AP large', 'recall'),
        rows,
    )


def count_errors(evaluation: COCOeval, score: float) -> Counter:
    """Count missed objects and false detections by id of the image, in COCO's matches at an IoU of
    0.5.

    Detections below the score do not count. One of a wrong class is an error twice: the object is
    missed, too.
    """
    errors: Counter = Counter()
    for found in evaluation.evalImgs:  # of one class, range of sizes and image
        if found is not None and found['aRng'] == evaluation.params.areaRng[ALL_SIZES]:
            kept, matched = np.array(found['dtScores']) >= score, found['dtMatches'][AT_50]
            missed = ~np.isin(found['gtIds'], matched[kept]) & ~np.array(
                found['gtIgnore'], dtype=bool
            )
            false = kept & (matched == 0) & ~found['dtIgnore'][AT_50].astype(bool)
            errors[found['image_id']] += int(missed.sum() + false.sum())
    return errors
