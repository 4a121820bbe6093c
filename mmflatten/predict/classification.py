"""Predicted classes as a CSV file."""
from typing import Any

import numpy as np

from mmflatten.predict import results
from mmflatten.predict.inputs import Input
from mmflatten.tables import write_csv

TOP = 5  # classes listed for each image


class Writer(results.Writer):
    """`classes.csv`, one line per image: file, then class and score of the five most probable classes."""

    files = ('classes.csv', )

    def add(self, item: Input, sample: Any, pixels: np.ndarray) -> dict:
        scores = sample.pred_score.float().cpu().numpy()
        ranking = [dict(label=label, name=self.name_of(label), score=float(scores[label]))
                   for label in np.argsort(-scores)[:TOP].tolist()]
        cells = [cell for entry in ranking for cell in (entry['name'], f'{entry["score"]:.6f}')]
        self.collected.append([item.source, *cells])
        return dict(label=ranking[0]['label'], classes=ranking)

    def close(self) -> None:
        if not self.collected:
            return
        count = (len(self.collected[0]) - 1) // 2
        header = ['file', *(f'{name}_{i + 1}' for i in range(count) for name in ('class', 'score'))]
        write_csv(self.folder / self.files[0], header, self.collected)
