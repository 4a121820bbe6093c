"""Analysis of segmentors: IoU and accuracy of each class, confusions, and the worst images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mmflatten.results.analysis import Analysis, ResultTable, known_mean, most_confused
from mmflatten.results.figures import Confusion
from mmflatten.results.reading import Results, ResultsError, require_truth

IGNORED = 255  # default of mmseg


@np.errstate(invalid='ignore')  # 0 / 0 of a class without pixels
def analyze(results: Results, worst: int, score: float) -> Analysis:
    """Analyze label maps over the pixels of all images together, like mmseg's `IoUMetric`."""
    require_truth(results.entries, 'gt_sem_seg')
    ignored = results.setting('ignore_index', IGNORED)
    labels = [_labels(entry, ignored) for entry in results.entries]
    known = int(max(values.max(initial=0) for values in labels)) + 1
    names = results.names(len(results.origin.get('classes') or ()) or known)
    if known > len(names):
        raise ResultsError(
            f'labels: expected labels below {len(names)}, the number of classes, got {known - 1} in'
            f' {results.path}. Pass the config of the tested model with --config.'
        )
    matrices = np.stack([_confusion(true, predicted, len(names)) for true, predicted in labels])
    matrix = matrices.sum(0)
    recall = matrix.diagonal() / matrix.sum(1)
    summary = dict(
        mIoU=known_mean(_ious(matrix)), mAcc=known_mean(recall), aAcc=matrix.trace() / matrix.sum()
    )
    image_ious = [known_mean(_ious(counts)) for counts in matrices]
    order = np.argsort(np.nan_to_num(image_ious, nan=2), kind='stable')[:worst]
    return Analysis(
        task='segmentation',
        images=len(labels),
        summary=summary,
        worst_by='mean IoU of the classes in the image',
        worst=[(int(index), float(image_ious[index])) for index in order],
        tables=dict(classes=_class_table(matrix, names), confusions=most_confused(matrix, names)),
        figures=dict(confusion=Confusion(matrix, names)),
    )


def _labels(entry: dict, ignored: int) -> np.ndarray:
    """Return true and predicted labels (2, pixels) of the pixels that count."""
    true = np.asarray(entry['gt_sem_seg']['data'])[0].astype(np.int64)
    predicted = np.asarray(entry['pred_sem_seg']['data'])[0].astype(np.int64)
    if true.shape != predicted.shape:
        raise ResultsError(
            f'gt_sem_seg: expected the shape {predicted.shape} of pred_sem_seg, got {true.shape}'
            f' for {entry.get("img_path")}. Load annotations after the resize in test_pipeline.'
        )
    return np.stack((true, predicted))[:, true != ignored]


def _confusion(true: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """Return the confusion matrix (classes, classes), with a row for each true class."""
    counts = np.bincount(classes * true + predicted, minlength=classes**2)
    return counts.reshape(classes, classes)


def _class_table(matrix: np.ndarray, names: Sequence[str]) -> ResultTable:
    correct, pixels = matrix.diagonal(), matrix.sum(1)
    ious = _ious(matrix)
    rows = list(zip(names, pixels, ious, correct / pixels, correct / matrix.sum(0)))
    rows.sort(key=lambda row: np.nan_to_num(row[2], nan=2))  # without pixels last
    return ResultTable(
        title='classes, the lowest IoU first',
        header=('class', 'pixels', 'IoU', 'accuracy', 'precision'),
        rows=rows,
    )


def _ious(matrix: np.ndarray) -> np.ndarray:
    """Return IoU (classes,); NaN for a class that is neither labelled nor predicted."""
    return matrix.diagonal() / (matrix.sum(0) + matrix.sum(1) - matrix.diagonal())
