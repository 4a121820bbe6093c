"""Analysis of classifiers: accuracy of each class, confusions, and the most confident errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array
from sklearn.metrics import precision_recall_fscore_support

from mmflatten.results.analysis import Analysis, ResultTable, most_confused
from mmflatten.results.figures import Confusion
from mmflatten.results.reading import MAX_CLASSES, MAX_SQUARE, Results, ResultsError, require_truth


def analyze(results: Results, worst: int, score: float) -> Analysis:
    """Analyze images with one label each."""
    scores, true = read(results)
    names = results.names(scores.shape[1], MAX_CLASSES)
    predicted = scores.argmax(1)
    confidence = scores.max(1)
    correct = predicted == true
    summary = {'top-1 accuracy': correct.mean(), 'mean confidence': confidence.mean()}
    if len(names) > 5:
        top_5 = np.argsort(-scores, 1, kind='stable')[:, :5]
        summary['top-5 accuracy'] = (top_5 == true[:, None]).any(1).mean()

    errors = sorted(np.flatnonzero(~correct), key=lambda index: -confidence[index])
    # The matrix of many classes is sparse, because all pairs would not fit into memory.
    matrix = csr_array(
        (np.ones(len(true), np.int64), (true, predicted)), shape=(len(names), len(names))
    )
    analysis = Analysis(
        task='classification',
        images=len(true),
        summary=summary,
        worst_by='confidence in a wrong class',
        worst=[(int(index), float(confidence[index])) for index in errors[:worst]],
        tables=dict(
            classes=_class_table(true, predicted, names), confusions=most_confused(matrix, names)
        ),
    )
    if len(names) <= MAX_SQUARE:
        analysis.figures['confusion'] = Confusion(matrix.toarray(), names)
    else:
        analysis.notes.append(f'no matrix of {len(names)} classes: at most {MAX_SQUARE}')
    return analysis


def _class_table(true: np.ndarray, predicted: np.ndarray, names: Sequence[str]) -> ResultTable:
    precision, recall, f1, number = precision_recall_fscore_support(
        true, predicted, labels=range(len(names)), zero_division=np.nan
    )
    rows = list(zip(names, number, recall, precision, f1))
    rows.sort(key=lambda row: np.nan_to_num(row[2], nan=2))  # without images last
    return ResultTable(
        title='classes, the least accurate first',
        header=('class', 'images', 'accuracy', 'precision', 'F1'),
        rows=rows,
    )


def read(results: Results) -> tuple[np.ndarray, np.ndarray]:
    """Return scores (images, classes) and true labels (images,)."""
    require_truth(results.entries, 'gt_label')
    scores = [np.asarray(entry['pred_score'], dtype=np.float64) for entry in results.entries]
    labels = [np.asarray(entry['gt_label']).reshape(-1) for entry in results.entries]
    for entry, vector, label in zip(results.entries, scores, labels):
        image = f'{entry.get("img_path")} in {results.path}'
        if vector.shape != scores[0].shape:
            raise ResultsError(
                f'pred_score: expected {scores[0].size} scores as in the first image, got'
                f' {vector.size} for {image}. Test again.'
            )
        if len(label) != 1:
            raise ResultsError(
                f'gt_label: expected one label for each image, got {len(label)} labels for {image}.'
            )
        if not 0 <= label[0] < len(vector):
            raise ResultsError(
                f'gt_label: expected a label below {len(vector)}, got {label[0]} for {image}. Test '
                'with annotations of these classes.'
            )
    return np.stack(scores), np.concatenate(labels)
