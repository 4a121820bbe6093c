"""What configs cost, beside the papers' rows that they reproduce: the table of `get_flops.py`."""
from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from mmflatten.analysis.flops.model_cost import ModelCost, count_config
from mmflatten.analysis.flops.table import as_json as cost_as_json
from mmflatten.analysis.text_table import align, giga
from mmflatten.analysis.zoo.tables import PaperRow, difference, rows_of_config

HEADER = ('config', 'image', 'params (M)', 'paper', 'diff', 'MACs (G)', "papers' way (G)", 'paper', 'diff', 'table',
          'not counted')
NOTES = """\
MACs: multiply-accumulates, products of activations (attention) included. Elementwise operators (activations, softmax,
norms, resizing, pooling, sums) are not multiply-accumulates; --json lists them. "not counted" names operators that may
multiply and accumulate and have no formula.
papers' way: what OpenMMLab's get_flops.py counts: MACs and elementwise norms, resizing and average pooling.
*: without products of activations, as that paper counts.
Two-stage detectors: 1000 proposals through the box head, 100 through the mask head.
paper, diff: the paper's own number, and ours (parameters; papers' way) against it. ~ rounds to it, up or down."""


@dataclass(frozen=True)
class ConfigCost:
    """What a config's model costs, and the published results it reproduces."""

    config: str
    cost: ModelCost
    rows: tuple[PaperRow, ...]

    def papers_convention(self, row: PaperRow | None = None) -> int:
        """FLOPs as the paper of `row` counts them, or as OpenMMLab does."""
        return self.cost.counts.papers_convention(with_products=row is None or row.with_products)


def count_beside_papers(config: str | Path, shape: tuple[int, int] | None = None) -> ConfigCost:
    """`count_config`, with the config's rows; by default at the image size of the first one, if that names any."""
    rows = rows_of_config(config)
    return ConfigCost(str(config), count_config(config, shape or (rows[0].shape if rows else None)), rows)


def render(costs: list[ConfigCost], markdown: bool = False) -> str:
    """The table, and the notes that explain it."""
    return f'{align(table_rows(costs), HEADER, {0, 9, 10}, markdown)}\n\n{NOTES}'


def table_rows(costs: list[ConfigCost]) -> list[tuple[str, ...]]:
    """A row for each config and each different pair of numbers it reproduces; columns as in `HEADER`."""
    rows = []
    for cost in costs:
        counts, stem = cost.cost.counts, Path(cost.config).stem
        twins = {other.config for other in costs if Path(other.config).stem == stem}
        missing = ', '.join(f'{name} ({calls}x)' for name, calls in sorted(counts.uncounted.items())) or 'none'
        groups = [list(group) for _, group in groupby(sorted(cost.rows, key=_numbers), key=_numbers)]
        for group in groups or [[]]:
            rows.append((stem if len(twins) == 1 else cost.config, 'x'.join(map(str, cost.cost.shape)),
                         *_number_cells(cost, group), missing))
    return rows


def _numbers(row: PaperRow) -> tuple[str, ...]:
    return tuple(row.cells[column] for column in ('paper', 'params_m', 'flops_g', 'flops_input_hw', 'task'))


def _number_cells(cost: ConfigCost, group: list[PaperRow]) -> tuple[str, ...]:
    row = group[0] if group else None
    params, flops = cost.cost.params / 1e6, cost.papers_convention(row)
    printed_params = row.cells['params_m'] if row and row.params_m else ''
    printed_flops = row.cells['flops_g'] if row and row.flops_g and row.shape == cost.cost.shape else ''
    star = '' if row is None or row.with_products else '*'
    tables = ', '.join(dict.fromkeys(other.cells['table'] for other in group))
    return (f'{params:.3f}', *beside(params, printed_params), giga(cost.cost.counts.macs), giga(flops) + star,
            *beside(flops / 1e9, printed_flops), f'{row.cells["paper"]} {tables}' if row else '-')


def beside(value: float | None, printed: str) -> tuple[str, str]:
    """The paper's number and our difference from it; '-' where there is none."""
    return printed or '-', difference(value, printed) if printed and value is not None else '-'


def as_json(cost: ConfigCost, with_modules: bool = False) -> dict[str, Any]:
    """Everything known about a config's cost, in single units (not millions or billions), and its rows."""
    rows = [{**row.cells, 'with_products': row.with_products} for row in cost.rows]
    return {'config': cost.config, **cost_as_json(cost.cost, with_modules), 'paper_rows': rows}
