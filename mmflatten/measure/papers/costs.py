"""Cost of configs next to the papers' rows that they reproduce: the table of `mmflatten flops`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from mmflatten.measure.flops.model_cost import ModelCost, count_config
from mmflatten.measure.papers.tables import PaperRow, difference, rows_of_config
from mmflatten.text import align, giga

HEADER = (
    'config',
    'image',
    'params (M)',
    'paper',
    'diff',
    'MACs (G)',
    "papers' way (G)",
    'paper',
    'diff',
    'table',
    'not counted',
)
NOTES = """\
MACs: multiply-accumulates, including products of activations (attention). Elementwise operators \
(activations, softmax,
norms, resizing, pooling, sums) are not multiply-accumulates; --json lists them. "not counted" \
names operators that may
multiply and accumulate but have no formula.
papers' way: what OpenMMLab's get_flops.py counts: MACs and elementwise norms, resizing and \
average pooling.
*: without products of activations, as that paper counts.
Two-stage detectors: 1000 proposals pass the box head, 100 the mask head.
paper, diff: the paper's own number, and ours (parameters; papers' way) against it. ~: less than \
one unit of the last printed digit."""
# Columns of the papers' tables that make a row of ours.
_NUMBERS = ('paper', 'params_m', 'flops_g', 'flops_input_hw', 'task')


@dataclass(frozen=True)
class PaperCost:
    """A row of a paper and the cost of its config; the numbers are None if the config was not
    counted.
    """

    row: PaperRow
    image: str = ''  # 'HxW'
    params: int | None = None
    macs: int | None = None
    flops: int | None = None  # as the row's paper counts

    @classmethod
    def of(cls, row: PaperRow, cost: ModelCost | None, *others: str) -> PaperCost:
        """Make an instance of a cost, with the values of a subclass's own fields."""
        if cost is None:
            return cls(row)
        image = 'x'.join(map(str, cost.shape))
        flops = cost.counts.papers_convention(row.with_products)
        macs = cost.counts.macs
        return cls(row, image, cost.params, macs, flops, *others)

    @property
    def is_counted(self) -> bool:
        return self.params is not None

    def params_cells(self, decimals: int) -> tuple[str, str, str]:
        """Format parameters in millions, the paper's, and the difference."""
        printed = self.row.cells['params_m']
        if not self.is_counted:
            return '-', printed or '-', '-'
        millions = self.params / 1e6
        return f'{millions:.{decimals}f}', printed or '-', difference(millions, printed)

    def flops_cells(self) -> tuple[str, str, str]:
        """Format FLOPs in 1e9 ('*': without products), the paper's if quoted at this image size,
        and the difference.
        """
        printed = self.row.cells['flops_g']
        if not self.is_counted:
            return '-', printed or '-', '-'
        if self.image != self.row.cells['flops_input_hw']:
            printed = ''
        star = '' if self.row.with_products else '*'
        return giga(self.flops) + star, printed or '-', difference(self.flops / 1e9, printed)


def count_beside_papers(config: str | Path, shape: tuple[int, int] | None = None) -> ModelCost:
    """Count a config, by default at the image size of its first row in the papers' tables."""
    rows = rows_of_config(config)
    return count_config(config, shape or (rows[0].shape if rows else None))


def render(costs: Mapping[str, ModelCost], markdown: bool = False) -> str:
    """Render the table of configs and costs with its notes. Configs of equal name are shown by
    their path.
    """
    stems = [Path(config).stem for config in costs]
    rows = []
    for (config, cost), stem in zip(costs.items(), stems):
        name = stem if stems.count(stem) == 1 else config
        rows += table_rows(name, cost, rows_of_config(config))
    return f'{align(rows, HEADER, {0, 9, 10}, markdown)}\n\n{NOTES}'


def table_rows(name: str, cost: ModelCost, published: Sequence[PaperRow]) -> list[tuple[str, ...]]:
    """Make a row for each distinct pair of published numbers, or one if there is none; columns as
    in `HEADER`.
    """
    uncounted = [f'{name} ({calls}x)' for name, calls in sorted(cost.counts.uncounted.items())]
    rows = []
    for _, group in groupby(sorted(published or [PaperRow.of()], key=_numbers), key=_numbers):
        same = list(group)
        entry = PaperCost.of(same[0], cost)
        tables = dict.fromkeys(row.cells['table'] for row in same)
        rows.append(
            (
                name,
                entry.image,
                *entry.params_cells(decimals=3),
                giga(entry.macs),
                *entry.flops_cells(),
                f'{same[0].cells["paper"]} {", ".join(tables)}'.strip() or '-',
                ', '.join(uncounted) or 'none',
            )
        )
    return rows


def _numbers(row: PaperRow) -> list[str]:
    return [row.cells[column] for column in _NUMBERS]
