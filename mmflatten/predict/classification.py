"""Predicted classes as a CSV file."""
import csv
import io
from collections.abc import Iterable
from typing import Any

import numpy as np

from mmflatten.predict import results
from mmflatten.predict.inputs import Input

TOP = 5  # classes listed for each image


class Writer(results.Writer):
    """`classes.csv`, one line per image: file, then class and score of the five most probable classes."""

    table = 'classes.csv'
    rows_file = 'classes.part.csv'

    def add(self, item: Input, sample: Any, pixels: np.ndarray) -> dict:
        scores = sample.pred_score.float().cpu().numpy()
        ranking = [
            dict(label=label, name=self.name_of(label), score=float(scores[label]))
            for label in np.argsort(-scores)[:TOP].tolist()
        ]
        header, row = ['file'], [item.source]
        for number, entry in enumerate(ranking, 1):
            header += [f'class_{number}', f'score_{number}']
            row += [entry['name'], f'{entry["score"]:.6f}']
        self.rows.add(_csv_lines([row] if self.rows.count else [header, row]))
        return dict(label=ranking[0]['label'], classes=ranking)


def _csv_lines(rows: Iterable[list[str]]) -> str:
    lines = io.StringIO(newline='')
    csv.writer(lines).writerows(rows)
    return lines.getvalue()
