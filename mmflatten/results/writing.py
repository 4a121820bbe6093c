"""Files of an analysis: tables, figures and `analysis.json`."""
from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from mmflatten.results.analysis import Analysis, plain
from mmflatten.results.drawing import save_png

FORMAT = 1  # of analysis.json, see docs/analysis_tools.md


def write_analysis(analysis: Analysis, out_dir: str | Path, source: dict[str, Any], worst: list[dict]) -> Path:
    """Write tables, figures and `analysis.json`; return the path of the JSON file.

    Args:
        source: origin of the predictions, such as `results` and `config`.
        worst: one dictionary for each of the worst images, see `draw_worst`.
    """
    out_dir = Path(out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    tables = {}
    for name, table in analysis.tables.items():
        rows = [[plain(value) for value in row] for row in table.rows]
        tables[name] = dict(title=table.title, file=f'{name}.csv', header=table.header, rows=rows)
        with open(out_dir / f'{name}.csv', 'w', newline='', encoding='utf-8') as file:
            csv.writer(file).writerows([table.header, *rows])
    for name, figure in analysis.figures.items():
        save_png(out_dir / f'{name}.png', {'': figure})
    content = dict(
        format=FORMAT, task=analysis.task, images=analysis.images, source=source,
        summary={name: plain(value) for name, value in analysis.summary.items()}, tables=tables,
        figures={name: f'{name}.png' for name in analysis.figures}, worst_by=analysis.worst_by, worst=worst,
        notes=analysis.notes)
    path = out_dir / 'analysis.json'
    path.write_text(json.dumps(content, indent=1) + '\n', encoding='utf-8')
    return path
