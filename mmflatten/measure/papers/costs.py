"""What configs cost, beside the papers' rows that they reproduce: the table of `get_flops.py`."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from mmflatten.measure.flops.model_cost import ModelCost
from mmflatten.measure.papers.rows import ZooEntry
from mmflatten.measure.papers.tables import PaperRow, rows_of_config
from mmflatten.text_table import align, giga

HEADER = ('config', 'image', 'params (M)', 'paper', 'diff', 'MACs (G)', "papers' way (G)", 'paper', 'diff', 'table',
          'not counted')
NOTES = """\
MACs: multiply-accumulates, including products of activations (attention). Elementwise operators (activations, softmax,
norms, resizing, pooling, sums) are not multiply-accumulates; --json lists them. "not counted" names operators that may
multiply and accumulate but have no formula.
papers' way: what OpenMMLab's get_flops.py counts: MACs and elementwise norms, resizing and average pooling.
*: without products of activations, as that paper counts.
Two-stage detectors: 1000 proposals pass the box head, 100 the mask head.
paper, diff: the paper's own number, and ours (parameters; papers' way) against it. ~ means that ours rounds to the
paper's number, up or down."""


def render(costs: Mapping[str, ModelCost], markdown: bool = False) -> str:
    """The table of configs and what they cost, and the notes that explain it."""
    stems = [Path(config).stem for config in costs]
    rows = [row for (config, cost), stem in zip(costs.items(), stems)
            for row in table_rows(stem if stems.count(stem) == 1 else config, cost, rows_of_config(config))]
    return f'{align(rows, HEADER, {0, 9, 10}, markdown)}\n\n{NOTES}'


def table_rows(name: str, cost: ModelCost, published: Sequence[PaperRow]) -> list[tuple[str, ...]]:
    """A row for each different pair of published numbers, or one if there is none; columns as in `HEADER`."""
    uncounted = ', '.join(f'{name} ({calls}x)' for name, calls in sorted(cost.counts.uncounted.items())) or 'none'
    rows = []
    for _, group in groupby(sorted(published or [PaperRow.of()], key=_numbers), key=_numbers):
        same = list(group)
        entry, tables = ZooEntry.of(same[0], cost), dict.fromkeys(row.cells['table'] for row in same)
        rows.append((name, entry.image, *entry.params_cells(decimals=3), giga(entry.macs), *entry.flops_cells(),
                     f'{same[0].cells["paper"]} {", ".join(tables)}'.strip() or '-', uncounted))
    return rows


def _numbers(row: PaperRow) -> list[str]:
    return [row.cells[name] for name in ('paper', 'params_m', 'flops_g', 'flops_input_hw', 'task')]
