"""Accuracy over the cells of grids."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
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
        with_commonest: report the percentage of the labelled cells that get the commonest answer,
            too: `cells/commonest_784`, 100 for a model that always answers the same.
    """

    default_prefix = 'cells'

    def __init__(
        self, with_errors: bool = False, with_commonest: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.with_errors = with_errors
        self.with_commonest = with_commonest

    def process(self, data_batch: Any, data_samples: Sequence[dict]) -> None:
        for sample in data_samples:
            labels = sample['cell_labels']
            asked = labels >= 0
            answers = sample['cell_classes'][asked]
            right = int((labels[asked] == answers).sum())
            counts = Counter(answers.tolist())
            self.results.append(_Image(sample.get('kind'), right, int(asked.sum()), counts))

    def compute_metrics(self, results: list[_Image]) -> dict[str, float]:
        metrics = dict(accuracy=_percentage(results))
        kinds = {image.kind for image in results if image.kind is not None}
        for kind in sorted(kinds):
            of_kind = [image for image in results if image.kind == kind]
            metrics[f'accuracy_{kind}'] = _percentage(of_kind)
            if self.with_errors:
                metrics[f'error_{kind}'] = _error(of_kind)
            if self.with_commonest:
                metrics[f'commonest_{kind}'] = _commonest(of_kind)
        return metrics


@dataclass(frozen=True)  # MMEngine makes a plain tuple of a named one
class _Image:
    kind: str | None
    right: int  # labelled cells
    asked: int
    answers: Counter[int]  # class -> labelled cells that got it


def _percentage(results: Sequence[_Image]) -> float:
    right = sum(image.right for image in results)
    asked = sum(image.asked for image in results)
    return 100 * right / asked


def _commonest(results: Sequence[_Image]) -> float:
    answers: Counter[int] = Counter()
    for image in results:
        answers.update(image.answers)
    return 100 * max(answers.values()) / answers.total()


def _error(results: Sequence[_Image]) -> float:
    """Standard error of `_percentage`, a ratio of two sums over images that are drawn apart from
    each other; NaN for one image.

    Source: Cochran, *Sampling Techniques*, 3rd edition, 1977, eq. 6.4.
    """
    number = len(results)
    if number < 2:
        return math.nan
    asked = np.array([image.asked for image in results], float)
    right = np.array([image.right for image in results], float)
    residuals = right - right.sum() / asked.sum() * asked
    spread = np.sqrt(np.sum(residuals**2) / (number - 1) / number)
    return float(100 * spread / asked.mean())
