"""Accuracy over the cells of grids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mmengine.evaluator import BaseMetric

from mmflatten.registry import METRICS


@METRICS.register_module()
class CellAccuracy(BaseMetric):
    """Percentage of correctly classified cells among the labelled cells of all images:
    `cells/accuracy`.

    Samples with a field `kind` have one for each kind, too: `cells/accuracy_784` for `kind='784'`.
    """

    default_prefix = 'cells'

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
        return metrics


def _percentage(results: Sequence[tuple[str | None, int, int]]) -> float:
    right = sum(result[1] for result in results)
    asked = sum(result[2] for result in results)
    return 100 * right / asked
