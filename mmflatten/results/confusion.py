"""Which classes are taken for which."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mmflatten.results.analysis import Table


def most_confused(matrix: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> Table:
    """Every kind of confusion that occurs, the most frequent first.

    Args:
        matrix: (rows, columns); true classes are rows, predicted ones columns. What is right is on the diagonal.
    """
    totals = matrix.sum(1)
    wrong = matrix * ~np.eye(*matrix.shape, dtype=bool)
    found = sorted(np.argwhere(wrong), key=lambda place: -wrong[tuple(place)])
    return Table('confusions, with their share of the true class', ('true', 'predicted', 'number', 'share'),
                 [(rows[row], columns[column], int(matrix[row, column]), matrix[row, column] / totals[row])
                  for row, column in found])
