"""Analysis of a test: its numbers, tables and figures, and functions common to several tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from mmflatten.results.figures import Plot
from mmflatten.results.reading import Results, ResultsError
from mmflatten.text import align, clip

ROWS_ON_SCREEN = 20


@dataclass
class ResultTable:
    """Rows of a name and numbers; NaN marks a number that is undefined."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple]

    def text(self) -> str:
        """Format at most `ROWS_ON_SCREEN` rows for the terminal."""
        rows = []
        for row in self.rows[:ROWS_ON_SCREEN]:
            rows.append([clip(cell(value)) for value in row])
        text = f'{self.title}\n{align(rows, self.header, {0})}'
        hidden = len(self.rows) - len(rows)
        return f'{text}\n... and {hidden} more in the CSV' if hidden else text


@dataclass
class Analysis:
    """Analysis of one test. Tables and figures are written as `<name>.csv` and `<name>.png`."""

    task: str
    images: int  # number of images with predictions
    summary: dict[str, float]
    worst_by: str  # name of the value by which the worst images are sorted
    worst: list[tuple[int, float]]  # index of an image and that value, worst first
    tables: dict[str, ResultTable] = field(default_factory=dict)
    figures: dict[str, Plot] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # what could not be computed, and why

    def text(self) -> str:
        """Format summary, tables and notes for the terminal."""
        summary = ResultTable(
            title=f'{self.task}, {self.images} images',
            header=('measure', 'value'),
            rows=list(self.summary.items()),
        )
        parts = [table.text() for table in (summary, *self.tables.values())]
        parts += [f'note: {note}' for note in self.notes]
        return '\n\n'.join(parts)


def analyze(results: Results, worst: int = 12, score: float = 0.3) -> Analysis:
    """Analyze the predictions of a test of any task.

    Args:
        worst: maximum number of worst images.
        score: minimum score of detections in the errors of worst images.

    Raises:
        FileNotFoundError: the annotation file of detections does not exist.
        ResultsError: the annotations are missing or do not fit, or scores are not finite.
    """
    for entry in results.entries:
        scores = entry.get('pred_score', entry.get('pred_instances', {}).get('scores', 0))
        if not torch.as_tensor(scores).isfinite().all():
            raise ResultsError(
                f'scores: expected finite numbers, got NaN or infinity for {entry.get("img_path")}'
                f' in {results.path}. The model has diverged, or its number format overflows.'
            )
    try:
        return results.task.part('results').analyze(results, worst, score)
    except (ResultsError, OSError):
        raise
    # NumPy, PyTorch and pycocotools raise errors of many types for entries that do not fit.
    except Exception as error:
        raise ResultsError(
            f'{results.path}: expected predictions of {results.task.name}, got entries that cannot'
            f' be evaluated ({type(error).__name__}: {error}).'
        ) from error


def json_number(value: Any) -> Any:
    """Return a Python number for JSON; None for NaN and infinity."""
    value = value.item() if hasattr(value, 'item') else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def cell(value: Any, missing: str = '-', integers: str = 'd') -> str:
    """Format a value of a table, with text for a missing one and a format of integers."""
    value = json_number(value)
    if value is None:
        return missing
    formats = {float: '.3f', int: integers}  # not of booleans, whose type is a subclass of int
    return format(value, formats.get(type(value), ''))


def known_mean(values: np.ndarray) -> float:
    """Return the mean without NaN; NaN if all values are NaN."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float('nan')


def most_confused(matrix: np.ndarray, names: Sequence[str]) -> ResultTable:
    """List the pairs of confused classes, most frequent first.

    Args:
        matrix: (classes, classes), which may be sparse; true classes are rows, predicted classes
            are columns.
    """
    totals = matrix.sum(1)
    pairs = [(row, column) for row, column in zip(*matrix.nonzero()) if row != column]
    pairs.sort(key=lambda pair: -matrix[pair])
    rows = []
    for row, column in pairs:
        number = matrix[row, column]
        rows.append((names[row], names[column], int(number), number / totals[row]))
    return ResultTable(
        title='confusions, with their share of the true class',
        header=('true', 'predicted', 'number', 'share'),
        rows=rows,
    )
