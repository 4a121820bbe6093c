"""A classifier's predictions: accuracy of each class, confusions, calibration, and its most confident mistakes."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from mmflatten.results.analysis import Analysis, Table
from mmflatten.results.calibration import Calibration
from mmflatten.results.confusion import most_confused
from mmflatten.results.figures import Confusion
from mmflatten.results.reading import Results, ResultsError, require_truth


def analyze(results: Results, worst: int, score: float) -> Analysis:
    """Analyze scores of one label for each image.

    Raises:
        ResultsError: an image has no true label, several, or one beyond the classes; or scores of another number.
    """
    require_truth(results.entries, 'gt_label')
    scores = _scores(results)
    names = results.names(scores.shape[1])
    true, predicted = _labels(results, len(names)), scores.argmax(1)
    confidence, right = scores.max(1), scores.argmax(1) == true
    calibration = Calibration.of(confidence, right)
    summary = {'top-1 accuracy': right.mean(), 'expected calibration error': calibration.error,
               'mean confidence': confidence.mean()}
    if len(names) > 5:
        summary['top-5 accuracy'] = (np.argsort(-scores, 1, kind='stable')[:, :5] == true[:, None]).any(1).mean()
    matrix = confusion_matrix(true, predicted, labels=range(len(names)))
    mistakes = sorted(np.flatnonzero(~right), key=lambda index: -confidence[index])
    return Analysis(
        'classification', len(true), summary, 'confidence in a wrong class',
        [(int(index), float(confidence[index])) for index in mistakes[:worst]],
        dict(classes=_class_table(true, predicted, names), confusions=most_confused(matrix, names, names)),
        dict(confusion=Confusion(matrix, names), reliability=calibration.figure))


def _scores(results: Results) -> np.ndarray:
    """(images, classes)"""
    scores = [np.asarray(entry['pred_score'], dtype=np.float64) for entry in results.entries]
    for entry, vector in zip(results.entries, scores):
        if vector.shape != scores[0].shape:
            raise ResultsError(f'pred_score of {entry.get("img_path")} in {results.path} has {vector.size} scores and '
                               f'that of the first image {scores[0].size}; test again')
    return np.stack(scores)


def _labels(results: Results, classes: int) -> np.ndarray:
    labels = [np.asarray(entry['gt_label']).reshape(-1) for entry in results.entries]
    for entry, label in zip(results.entries, labels):
        if len(label) != 1:
            raise ResultsError(f'gt_label of {entry.get("img_path")} has {len(label)} labels; only images with one '
                               'label each can be analyzed')
        if not 0 <= label[0] < classes:
            raise ResultsError(f'gt_label ({label[0]}) of {entry.get("img_path")} in {results.path} is beyond the '
                               f'{classes} classes; test again with annotations of the classes of the model')
    return np.concatenate(labels)


def _class_table(true: np.ndarray, predicted: np.ndarray, names: Sequence[str]) -> Table:
    precision, recall, f1, number = precision_recall_fscore_support(
        true, predicted, labels=range(len(names)), zero_division=np.nan)
    rows = sorted(zip(names, number, recall, precision, f1), key=lambda row: np.nan_to_num(row[2], nan=2))
    return Table('classes, the least accurate first', ('class', 'images', 'accuracy', 'precision', 'F1'), rows)
