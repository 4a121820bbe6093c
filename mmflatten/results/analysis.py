"""Results of an analysis: numbers, tables and figures."""
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from mmflatten.results.figures import Plot
from mmflatten.text_table import align

ROWS_ON_SCREEN = 20


@dataclass
class ResultTable:
    """Rows of a name and numbers; NaN marks a number that is undefined."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple]

    def text(self) -> str:
        """Format at most `ROWS_ON_SCREEN` rows for the terminal."""
        rows = [[_cell(value) for value in row] for row in self.rows[:ROWS_ON_SCREEN]]
        text = f'{self.title}\n{align(rows, self.header, {0})}'
        hidden = len(self.rows) - len(rows)
        return f'{text}\n... and {hidden} more in the CSV' if hidden else text


@dataclass
class Analysis:
    """Analysis of one test.

    Attributes:
        task: classification, detection, segmentation or stereo.
        images: number of images with predictions.
        summary: metrics of the whole test.
        worst_by: name of the value by which the worst images are sorted.
        worst: index of an image and that value, worst first.
        tables: name -> table, written as `<name>.csv`.
        figures: name -> figure, written as `<name>.png`.
        notes: what could not be computed, and why.
    """

    task: str
    images: int
    summary: dict[str, float]
    worst_by: str
    worst: list[tuple[int, float]]
    tables: dict[str, ResultTable] = field(default_factory=dict)
    figures: dict[str, Plot] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Format summary, tables and notes for the terminal."""
        summary = ResultTable(f'{self.task}, {self.images} images', ('measure', 'value'), list(self.summary.items()))
        parts = [table.text() for table in (summary, *self.tables.values())]
        return '\n\n'.join(parts + [f'note: {note}' for note in self.notes])


def plain(value: Any) -> Any:
    """Return a Python number for JSON; None for NaN and infinity."""
    value = value.item() if hasattr(value, 'item') else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(value: Any) -> str:
    value = plain(value)
    if value is None:
        return '-'
    return f'{value:.3f}' if isinstance(value, float) else str(value)
