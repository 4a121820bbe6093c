"""Accuracy over the cells of grids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from mmengine.evaluator import BaseMetric

from mmflatten.registry import METRICS


@METRICS.register_module()
class CellAccuracy(BaseMetric):
    """Percentage of correctly classified cells among the labelled cells of all images:
    `cells/accuracy`.

    Samples with a field `kind` have one for each kind, too: `cells/accuracy_784` for `kind='784'`.

    Args:
        with_errors: report the standard error of each over its images, too: `cells/error_784`.
    """

    default_prefix = 'cells'

    def __init__(self, with_errors: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.with_errors = with_errors

    def process(self, data_batch: Any, data_samples: Sequence[dict]) -> None:
        for sample in data_samples:
            labels = sample['cell_labels']
            asked = labels >= 0
            right = (labels == sample['cell_classes'])[asked]
            self.results.append((sample.get('kind'), int(right.sum()), int(asked.sum())))

    def compute_metrics(self, results: list[tuple[str | None, int, int]]) -> dict[str, float]:
        metrics = dict(accuracy=_percentage(results))
        kinds = {kind for kind, _, _ in results if kind is not None}
        for kind in sorted(kinds):
            of_kind = [result for result in results if result[0] == kind]
            metrics[f'accuracy_{kind}'] = _percentage(of_kind)
            if self.with_errors:
                metrics[f'error_{kind}'] = _error(of_kind)
        return metrics


def _percentage(results: Sequence[tuple[str | None, int, int]]) -> float:
    right = sum(result[1] for result in results)
    asked = sum(result[2] for result in results)
    return 100 * right / asked


def _error(results: Sequence[tuple[str | None, int, int]]) -> float:
    """Standard error of `_percentage`, a ratio of two sums over images that are drawn apart from
    each other; NaN for one image.

    Source: Cochran, *Sampling Techniques*, 3rd edition, 1977, eq. 6.4.
    """
    number = len(results)
    if number < 2:
        return math.nan
    asked = np.array([result[2] for result in results], float)
    right = np.array([result[1] for result in results], float)
    residuals = right - right.sum() / asked.sum() * asked
    spread = np.sqrt(np.sum(residuals**2) / (number - 1) / number)
    return float(100 * spread / asked.mean())
