"""Accuracy over the cells of grids."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mmengine.evaluator import BaseMetric

from mmflatten.registry import METRICS


@METRICS.register_module()
class CellAccuracy(BaseMetric):
    """Percentage of correctly classified cells among the labelled cells of all images: `cells/accuracy`."""

    default_prefix = 'cells'

    def process(self, data_batch: Any, data_samples: Sequence[dict]) -> None:
        for sample in data_samples:
            labels, classes = sample['cell_labels'], sample['cell_classes']
            asked = labels >= 0
            self.results.append((int((labels == classes)[asked].sum()), int(asked.sum())))

    def compute_metrics(self, results: list[tuple[int, int]]) -> dict[str, float]:
        right, asked = map(sum, zip(*results))
        return dict(accuracy=100 * right / asked)
