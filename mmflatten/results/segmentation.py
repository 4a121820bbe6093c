"""Analysis of segmentors: IoU and accuracy of each class, confusions, and the worst images."""

from __future__ import annotations

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
    matrices = np.stack(
        [
            np.bincount(len(names) * true + predicted, minlength=len(names) ** 2)
            for true, predicted in labels
        ]
    ).reshape(-1, len(names), len(names))
    matrix, image_ious = matrices.sum(0), [known_mean(_ious(counts)) for counts in matrices]
    recall = matrix.diagonal() / matrix.sum(1)
    summary = dict(
        mIoU=known_mean(_ious(matrix)), mAcc=known_mean(recall), aAcc=matrix.trace() / matrix.sum()
    )
    order = np.argsort(np.nan_to_num(image_ious, nan=2), kind='stable')[:worst]
    rows = sorted(
        zip(names, matrix.sum(1), _ious(matrix), recall, matrix.diagonal() / matrix.sum(0)),
        key=lambda row: np.nan_to_num(row[2], nan=2),
    )
    return Analysis(
        'segmentation',
        len(labels),
        summary,
        'mean IoU of the classes in the image',
        [(int(index), float(image_ious[index])) for index in order],
        dict(
            classes=ResultTable(
                'classes, the lowest IoU first',
                ('class', 'pixels', 'IoU', 'accuracy', 'precision'),
                rows,
            ),
            confusions=most_confused(matrix, names),
        ),
        dict(confusion=Confusion(matrix, names)),
    )


def _labels(entry: dict, ignored: int) -> np.ndarray:
    """Return true and predicted labels (2, pixels) of the pixels that count."""
    true, predicted = (
        np.asarray(entry[key]['data'])[0].astype(np.int64) for key in ('gt_sem_seg', 'pred_sem_seg')
    )
    if true.shape != predicted.shape:
        raise ResultsError(
            f'gt_sem_seg: expected the shape {predicted.shape} of pred_sem_seg, got {true.shape}'
            f' for {entry.get("img_path")}. Load annotations after the resize in test_pipeline.'
        )
    return np.stack((true, predicted))[:, true != ignored]


def _ious(matrix: np.ndarray) -> np.ndarray:
    """Return IoU (classes,); NaN for a class that is neither labelled nor predicted."""
    return matrix.diagonal() / (matrix.sum(0) + matrix.sum(1) - matrix.diagonal())
