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
            labels, classes = sample['cell_labels'], sample['cell_classes']
            asked = labels >= 0
            self.results.append(
                (sample.get('kind'), int((labels == classes)[asked].sum()), int(asked.sum()))
            )

    def compute_metrics(self, results: list[tuple[str | None, int, int]]) -> dict[str, float]:
        def accuracy(kind: str | None = None) -> float:
            right, asked = map(sum, zip(*(item[1:] for item in results if kind in (None, item[0]))))
            return 100 * right / asked

        kinds = sorted({kind for kind, *_ in results if kind is not None})
        return dict(accuracy=accuracy()) | {f'accuracy_{kind}': accuracy(kind) for kind in kinds}
