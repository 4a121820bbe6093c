"""Accuracy over the cells of grids."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mmengine.evaluator import BaseMetric

from mmflatten.registry import METRICS


@METRICS.register_module()
class CellAccuracy(BaseMetric):
    """Percentage of correctly classified cells among the labelled cells of all images: `cells/accuracy`.

    Images of several sizes have one accuracy for each number of cells, too: `cells/accuracy_784`.
    """

    default_prefix = 'cells'

    def process(self, data_batch: Any, data_samples: Sequence[dict]) -> None:
        for sample in data_samples:
            labels, classes = sample['cell_labels'], sample['cell_classes']
            asked = labels >= 0
            self.results.append((len(labels), int((labels == classes)[asked].sum()), int(asked.sum())))

    def compute_metrics(self, results: list[tuple[int, int, int]]) -> dict[str, float]:
        def accuracy(chosen: Sequence[tuple[int, int, int]]) -> float:
            return 100 * sum(right for _, right, _ in chosen) / sum(asked for _, _, asked in chosen)

        sizes = sorted({cells for cells, _, _ in results})
        return dict(accuracy=accuracy(results)) | {
            f'accuracy_{size}': accuracy([item for item in results if item[0] == size]) for size in sizes}
