"""What was found in predictions, and how it is written down."""
from __future__ import annotations

import csv
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmflatten.results.figures import Bars, Confusion, Histogram, PrecisionRecall, Reliability
from mmflatten.text_table import align

FORMAT = 1  # of analysis.json; docs/analysis_tools.md describes it
ROWS_ON_SCREEN = 20
Plot = Confusion | PrecisionRecall | Reliability | Bars | Histogram


@dataclass
class Table:
    """Rows of a name and numbers; a number that does not exist is NaN."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple]

    def text(self) -> str:
        """Aligned, at most `ROWS_ON_SCREEN` rows."""
        rows = [[_cell(value) for value in row] for row in self.rows[:ROWS_ON_SCREEN]]
        left = len(self.rows) - len(rows)
        more = f'\n... and {left} more in the CSV' if left else ''
        return f'{self.title}\n{align(rows, self.header, {0})}{more}'


@dataclass
class Analysis:
    """Findings of one test.

    Attributes:
        task: classification, detection, segmentation or stereo.
        images: how many there are predictions for.
        summary: figures of the whole test.
        tables: name -> table; each becomes `<name>.csv`.
        figures: name -> numbers of a figure; each becomes `<name>.png`.
        worst_by: what the worst images are sorted by.
        worst: index of an image and that value, the worst first.
        notes: what could not be found out, and why.
    """

    task: str
    images: int
    summary: dict[str, float]
    worst_by: str
    worst: list[tuple[int, float]]
    tables: dict[str, Table] = field(default_factory=dict)
    figures: dict[str, Plot] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Summary and tables for the screen."""
        summary = Table(f'{self.task}, {self.images} images', ('measure', 'value'), list(self.summary.items()))
        parts = [table.text() for table in (summary, *self.tables.values())]
        return '\n\n'.join(parts + [f'note: {note}' for note in self.notes])

    def write(self, out_dir: str | Path, source: dict[str, Any], worst: list[dict]) -> Path:
        """Write tables, figures and `analysis.json`, and return the path of the latter.

        Args:
            source: where the predictions come from, for example `results` and `config`.
            worst: one dictionary for each of the worst images.
        """
        out_dir = Path(out_dir)
        out_dir.mkdir(parents=True, exist_ok=True)
        for name, table in self.tables.items():
            with open(out_dir / f'{name}.csv', 'w', newline='', encoding='utf-8') as file:
                csv.writer(file).writerows([table.header, *([_number(value) for value in row] for row in table.rows)])
        for name, figure in self.figures.items():
            figure.draw().savefig(out_dir / f'{name}.png', dpi=100)
        content = dict(
            format=FORMAT, task=self.task, images=self.images, source=source,
            summary={name: _number(value) for name, value in self.summary.items()},
            tables={name: dict(title=table.title, file=f'{name}.csv', header=table.header,
                               rows=[[_number(value) for value in row] for row in table.rows])
                    for name, table in self.tables.items()},
            figures={name: f'{name}.png' for name in self.figures},
            worst_by=self.worst_by, worst=worst, notes=self.notes)
        path = out_dir / 'analysis.json'
        path.write_text(json.dumps(content, indent=1) + '\n', encoding='utf-8')
        return path


def _number(value: Any) -> Any:
    """A plain number that JSON knows; None for NaN."""
    value = value.item() if hasattr(value, 'item') else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(value: Any) -> str:
    value = _number(value)
    return '-' if value is None else f'{value:.3f}' if isinstance(value, float) else str(value)
