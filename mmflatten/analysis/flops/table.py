"""Costs as people read them: an aligned or Markdown table, a tree of modules, JSON."""
from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from mmflatten.analysis.flops.counter import macs_of
from mmflatten.analysis.flops.model_cost import ConfigCost
from mmflatten.analysis.flops.rules import OTHER, PRODUCT
from mmflatten.analysis.zoo.tables import PaperRow, within_printed_precision
from mmflatten.version import __version__

HEADER = ('config', 'image', 'params (M)', 'paper', 'diff', 'MACs (G)', "papers' way (G)", 'paper', 'diff', 'table',
          'not counted')
TEXT_COLUMNS = {0, 9, 10}  # aligned to the left

NOTES = """\
MACs: multiply-accumulates, products of activations (attention) included. Elementwise operators (activations, softmax,
norms, resizing, pooling, sums) are not multiply-accumulates; --json lists them. "not counted" names operators that may
multiply and accumulate and have no formula.
papers' way: what OpenMMLab's get_flops.py counts: MACs and elementwise norms, resizing and average pooling.{without}
Two-stage detectors: 1000 proposals through the box head, 100 through the mask head."""
WITHOUT_NOTE = '\n* without products of activations, as this paper counts.'
PAPER_NOTE = ("\npaper, diff: the paper's own number, and ours (parameters; papers' way) against it. "
              "~ rounds to it, up or down.")


def difference(value: float, printed: str) -> str:
    """How far `value` is from the paper's number: '+1.2%', with '~' when it rounds to what is printed."""
    mark = '~' if within_printed_precision(value, printed) else ''
    percent = round(100 * (value / float(printed) - 1), 1)
    return f'{percent:+.1f}%{mark}' if percent else f'0.0%{mark}'


def same_numbers(cost: ConfigCost) -> list[list[PaperRow]]:
    """A config's rows in groups that print the same parameters and FLOPs."""

    def numbers(row: PaperRow) -> tuple[str, ...]:
        return tuple(row.cells[column] for column in ('paper', 'params_m', 'flops_g', 'flops_input_hw', 'task'))

    return [list(rows) for _, rows in groupby(sorted(cost.rows, key=numbers), key=numbers)]


def table_rows(costs: list[ConfigCost]) -> list[tuple[str, ...]]:
    """One row of cells for each config and each different pair of numbers it reproduces; columns as in `HEADER`."""
    rows = []
    for cost in costs:
        counts = cost.cost.counts
        missing = ', '.join(f'{name} ({calls}x)' for name, calls in sorted(counts.uncounted.items())) or 'none'
        for group in same_numbers(cost) or [[]]:
            rows.append((short_name(cost, costs), 'x'.join(map(str, cost.cost.shape)), *_number_cells(cost, group),
                         missing))
    return rows


def _number_cells(cost: ConfigCost, group: list[PaperRow]) -> tuple[str, ...]:
    row = group[0] if group else None
    params, flops = cost.cost.params / 1e6, cost.papers_convention(row)
    ours = f'{params:.3f}', giga(cost.cost.counts.macs), giga(flops)
    if row is None:
        return ours[0], '-', '-', *ours[1:], '-', '-', '-'
    tables = ', '.join(dict.fromkeys(other.cells['table'] for other in group))
    return (ours[0], *_beside(params, row.params_m and row.cells['params_m']),
            ours[1], ours[2] + ('' if row.with_products else '*'),
            *_beside(flops / 1e9, cost.row_flops(row) and row.cells['flops_g']), f'{row.cells["paper"]} {tables}')


def _beside(value: float, printed: str | None) -> tuple[str, str]:
    return (printed, difference(value, printed)) if printed else ('-', '-')


def giga(operations: int) -> str:
    """Operations in 1e9 with four significant digits, three decimals at most."""
    value = operations / 1e9
    return f'{value:.{3 if value < 10 else 2 if value < 100 else 1}f}'


def short_name(cost: ConfigCost, costs: list[ConfigCost]) -> str:
    """A config's file name without its ending, or its path where two files have one name."""
    stem = Path(cost.config).stem
    twins = {other.config for other in costs if Path(other.config).stem == stem}
    return stem if len(twins) == 1 else cost.config


def align(rows: list[tuple[str, ...]], header: tuple[str, ...], left: set[int], markdown: bool = False) -> str:
    """Lay out rows of cells under a header; columns outside `left` are aligned to the right."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]

    def line(cells: tuple[str, ...]) -> str:
        padded = [cell.ljust(width) if column in left else cell.rjust(width)
                  for column, (cell, width) in enumerate(zip(cells, widths))]
        return f'| {" | ".join(padded)} |' if markdown else '  '.join(padded).rstrip()

    dashes = tuple('-' * width if column in left or not markdown else '-' * (width - 1) + ':'
                   for column, width in enumerate(widths))
    return '\n'.join(line(cells) for cells in (header, dashes, *rows))


def render(costs: list[ConfigCost], markdown: bool = False) -> str:
    """The table and the notes that explain it."""
    rows = table_rows(costs)
    starred = any('*' in row[6] for row in rows)
    notes = NOTES.format(without=WITHOUT_NOTE if starred else '')
    notes += PAPER_NOTE if any(row[9] != '-' for row in rows) else ''
    return f'{align(rows, HEADER, TEXT_COLUMNS, markdown)}\n\n{notes}'


def render_modules(cost: ConfigCost, depth: int, markdown: bool = False) -> str:
    """Where a model's operations are: its modules to a depth, those without parameters and operations left out."""
    model = cost.cost
    total = max(model.counts.macs, 1)
    rows = []
    for name, kind in model.module_types.items():
        level = name.count('.') + 1 if name else 0
        kinds = model.counts.within(name)
        params, macs = model.params_by_module.get(name, 0), macs_of(kinds)
        if level > depth or not (params or macs):
            continue
        indent = ('&nbsp;' if markdown else ' ') * 2 * level
        label = f'{indent}{name.rpartition(".")[2] or Path(cost.config).stem} ({kind})'
        rows.append((label, f'{params / 1e6:.3f}', giga(macs), f'{100 * macs / total:.1f}', giga(kinds[PRODUCT]),
                     giga(macs + kinds[OTHER])))
    header = ('module', 'params (M)', 'MACs (G)', '%', 'of these products (G)', "papers' way (G)")
    return align(rows, header, {0}, markdown)


def as_json(cost: ConfigCost, with_modules: bool = False) -> dict[str, Any]:
    """Everything known about a config's cost, in single units (not millions or billions)."""
    counts = cost.cost.counts
    result = {
        'config': cost.config, 'shape': list(cost.cost.shape), 'params': cost.cost.params, 'macs': counts.macs,
        'papers_convention': counts.papers_convention(),
        'papers_convention_without_products': counts.papers_convention(with_products=False),
        'by_kind': dict(counts.by_kind), 'by_operator': dict(counts.by_operator),
        'elementwise_not_counted': dict(counts.elementwise), 'uncounted': dict(counts.uncounted),
        'paper_rows': [{**row.cells, 'with_products': row.with_products} for row in cost.rows],
        'versions': {'mmflatten': __version__, 'torch': torch.__version__},
    }
    if with_modules:
        result['modules'] = {name: {'type': kind, 'params': cost.cost.params_by_module.get(name, 0),
                                    'macs': macs_of(counts.within(name))}
                             for name, kind in cost.cost.module_types.items()}
    return result
