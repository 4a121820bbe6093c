"""Analysis of segmentors: IoU and accuracy of each class, confusions, and the worst images."""
from __future__ import annotations

import numpy as np

from mmflatten.results.analysis import Analysis, ResultTable
from mmflatten.results.confusion import most_confused
from mmflatten.results.figures import Bars, Confusion
from mmflatten.results.reading import Results, ResultsError, require_truth

IGNORED = 255  # default of mmseg


def analyze(results: Results, worst: int, score: float) -> Analysis:
    """Analyze label maps over the pixels of all images together, as mmseg's `IoUMetric` does.

    Raises:
        ResultsError: an image has no true label map, or its size differs from that of the prediction.
    """
    require_truth(results.entries, 'gt_sem_seg')
    ignored = results.setting('ignore_index', IGNORED)
    maps = [_maps(entry) for entry in results.entries]
    known = max(max(predicted.max(), true[true != ignored].max(initial=0)) for true, predicted in maps) + 1
    names = results.names(len(results.origin.get('classes') or ()) or int(known))
    if known > len(names):
        raise ResultsError(f'labels: expected labels below {len(names)}, the number of classes, got {known - 1} in '
                           f'{results.path}. Pass the config of the tested model with --config.')
    matrices = np.stack([_count(true[true != ignored], predicted[true != ignored], len(names))
                         for true, predicted in maps])
    matrix, image_ious = matrices.sum(0), [_mean(_ious(counted)) for counted in matrices]
    recall = _ratio(matrix.diagonal(), matrix.sum(1))
    summary = dict(mIoU=_mean(_ious(matrix)), mAcc=_mean(recall), aAcc=_ratio(matrix.trace(), matrix.sum()))
    order = np.argsort(np.nan_to_num(image_ious, nan=2), kind='stable')[:worst]
    table = ResultTable('classes, the lowest IoU first', ('class', 'pixels', 'IoU', 'accuracy', 'precision'), sorted(
        zip(names, matrix.sum(1), _ious(matrix), recall, _ratio(matrix.diagonal(), matrix.sum(0))),
        key=lambda row: np.nan_to_num(row[2], nan=2)))
    return Analysis(
        'segmentation', len(maps), summary, 'mean IoU of the classes in the image',
        [(int(index), float(image_ious[index])) for index in order],
        dict(classes=table, confusions=most_confused(matrix, names)),
        dict(confusion=Confusion(matrix, names),
             iou=Bars({row[0]: row[2] for row in table.rows[:40]}, 'IoU')))


def _maps(entry: dict) -> tuple[np.ndarray, np.ndarray]:
    """Return true and predicted labels (H, W)."""
    true, predicted = (np.asarray(entry[key]['data'])[0].astype(np.int64) for key in ('gt_sem_seg', 'pred_sem_seg'))
    if true.shape != predicted.shape:
        raise ResultsError(f'gt_sem_seg: expected the shape {predicted.shape} of pred_sem_seg, got {true.shape} for '
                           f'{entry.get("img_path")}. Load annotations after the resize in test_pipeline.')
    return true, predicted


def _count(true: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """Count pixels (classes, classes); true classes are rows."""
    return np.bincount(classes * true + predicted, minlength=classes ** 2).reshape(classes, classes)


def _ious(matrix: np.ndarray) -> np.ndarray:
    """Return IoU (classes,); NaN for a class that is neither labelled nor predicted."""
    return _ratio(matrix.diagonal(), matrix.sum(0) + matrix.sum(1) - matrix.diagonal())


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    with np.errstate(invalid='ignore'):
        return np.divide(part, whole)


def _mean(values: np.ndarray) -> float:
    """Return the mean without NaN; NaN if all values are NaN."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float('nan')
