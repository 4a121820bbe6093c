"""Predicted classes as a CSV file."""

from typing import Any

import numpy as np

from mmflatten.predict import results
from mmflatten.predict.inputs import Input
from mmflatten.untrusted.csv_files import csv_line

TOP = 5  # classes listed for each image


class Writer(results.Writer):
    """`classes.csv`, one line per image: file, then class and score of the five most probable
    classes.
    """

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
        if self.rows.count == 0:
            row_lines = csv_line(header) + csv_line(row)
        else:
            row_lines = csv_line(row)
        self.rows.add(row_lines)
        return dict(label=ranking[0]['label'], classes=ranking)
