"""Table of the confused classes."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mmflatten.results.analysis import ResultTable


def most_confused(matrix: np.ndarray, names: Sequence[str]) -> ResultTable:
    """List the pairs of confused classes, most frequent first.

    Args:
        matrix: (classes, classes); true classes are rows, predicted classes are columns.
    """
    totals = matrix.sum(1)
    wrong = matrix * ~np.eye(*matrix.shape, dtype=bool)
    pairs = sorted(np.argwhere(wrong), key=lambda pair: -wrong[tuple(pair)])
    return ResultTable('confusions, with their share of the true class', ('true', 'predicted', 'number', 'share'),
                       [(names[row], names[column], int(matrix[row, column]), matrix[row, column] / totals[row])
                        for row, column in pairs])
