"""Analysis of classifiers: accuracy of each class, confusions, calibration, and the most confident errors."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from mmflatten.results.analysis import Analysis, ResultTable
from mmflatten.results.calibration import reliability
from mmflatten.results.confusion import most_confused
from mmflatten.results.figures import Confusion
from mmflatten.results.reading import Results, ResultsError, require_truth


def analyze(results: Results, worst: int, score: float) -> Analysis:
    """Analyze images with one label each.

    Raises:
        ResultsError: an image does not have exactly one valid label, or the number of scores varies.
    """
    require_truth(results.entries, 'gt_label')
    scores = _scores(results)
    names = results.names(scores.shape[1])
    true, predicted = _labels(results, len(names)), scores.argmax(1)
    confidence, correct = scores.max(1), predicted == true
    calibration = reliability(confidence, correct)
    summary = {'top-1 accuracy': correct.mean(), 'expected calibration error': calibration.error,
               'mean confidence': confidence.mean()}
    if len(names) > 5:
        summary['top-5 accuracy'] = (np.argsort(-scores, 1, kind='stable')[:, :5] == true[:, None]).any(1).mean()
    matrix = confusion_matrix(true, predicted, labels=range(len(names)))
    errors = sorted(np.flatnonzero(~correct), key=lambda index: -confidence[index])
    return Analysis(
        'classification', len(true), summary, 'confidence in a wrong class',
        [(int(index), float(confidence[index])) for index in errors[:worst]],
        dict(classes=_class_table(true, predicted, names), confusions=most_confused(matrix, names)),
        dict(confusion=Confusion(matrix, names), reliability=calibration))


def _scores(results: Results) -> np.ndarray:
    """Return scores (images, classes)."""
    scores = [np.asarray(entry['pred_score'], dtype=np.float64) for entry in results.entries]
    for entry, vector in zip(results.entries, scores):
        if vector.shape != scores[0].shape:
            raise ResultsError(f'pred_score: expected {scores[0].size} scores as in the first image, got {vector.size} '
                               f'for {entry.get("img_path")} in {results.path}. Test again.')
    return np.stack(scores)


def _labels(results: Results, classes: int) -> np.ndarray:
    labels = [np.asarray(entry['gt_label']).reshape(-1) for entry in results.entries]
    for entry, label in zip(results.entries, labels):
        if len(label) != 1:
            raise ResultsError(f'gt_label: expected one label for each image, got {len(label)} labels for '
                               f'{entry.get("img_path")} in {results.path}.')
        if not 0 <= label[0] < classes:
            raise ResultsError(f'gt_label: expected a label below {classes}, got {label[0]} for '
                               f'{entry.get("img_path")} in {results.path}. Test with annotations of these classes.')
    return np.concatenate(labels)


def _class_table(true: np.ndarray, predicted: np.ndarray, names: Sequence[str]) -> ResultTable:
    precision, recall, f1, number = precision_recall_fscore_support(
        true, predicted, labels=range(len(names)), zero_division=np.nan)
    rows = sorted(zip(names, number, recall, precision, f1), key=lambda row: np.nan_to_num(row[2], nan=2))
    return ResultTable('classes, the least accurate first', ('class', 'images', 'accuracy', 'precision', 'F1'), rows)
