"""The papers' results in `tables.csv`, one row per published result.

A result is a line of a table, once for each detector that the line reports. Evaluations of one
training that share a line (classes and boxes, one scale and several) are one result. The same
result in two tables is two rows. The rows of SLAB and later attentions are from their READMEs;
`table` is `paper` or `notes` for figures from elsewhere. A model without any accuracy is listed for
its config.

`config` is the path, from the root of the repository, of the config that reproduces the row; rows
may share a config. All numbers are the paper's. `cause` explains why the cost of the config differs
from the printed one; a cause that begins with "Inference: " is our reading of the figures.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLES = Path(__file__).with_name('tables.csv')

# Rows whose FLOPs leave out products of activations, by (paper, task, prefix of the backbone's
# name). Evidence in the tables: for detection, Focal and L2ViT print 264 G for Swin-T in Mask R-CNN
# and 245 G in RetinaNet, which is without products (267 and 248 G with them). They print 245 and
# 226 G for PVT-S (305 and 286 G with them); Focal prints 166 G for ResNet-50 in Sparse R-CNN (169 G
# with them). Focal's own models include them: it prints 265, 367 and 514 G for -T, -S and -B in
# RetinaNet, we count 265.0, 365.2 and 517.3 G with products. RALA prints 219 G for RAVLT-T and 262
# G for -S in Mask R-CNN (272 and 360 G with them). MALA prints 2.5, 4.6, 9.9 and 16.1 G for MAViT
# (2.6, 4.9, 10.6 and 17.3 G with them).
WITHOUT_PRODUCTS = (
    ('focal', 'detection', 'resnet'),
    ('focal', 'detection', 'pvt'),
    ('focal', 'detection', 'swin'),
    ('l2vit', 'detection', ''),
    ('rala', 'detection', ''),
    ('mala', 'classification', 'mavit'),
)


@dataclass(frozen=True)
class PaperRow:
    """One published result. `cells` holds every column as printed, '' where the paper prints
    nothing.
    """

    cells: dict[str, str]

    @classmethod
    def of(cls, **cells: str) -> PaperRow:
        """Make a row of these cells; without `paper` it stands for a config of this project."""
        return cls({**dict.fromkeys(paper_rows()[0].cells, ''), **cells})

    @property
    def label(self) -> str:
        """Paper and table, such as 'flatten 2a'."""
        return f'{self.cells["paper"]} {self.cells["table"]}'

    @property
    def config(self) -> str:
        return self.cells['config']

    @property
    def cause(self) -> str:
        return self.cells['cause']

    @property
    def shape(self) -> tuple[int, int] | None:
        """(H, W) that the FLOPs are quoted at."""
        size = self.cells['flops_input_hw']
        return tuple(int(side) for side in size.split('x')) if size else None

    @property
    def with_products(self) -> bool:
        """True if the paper's FLOPs include products of activations."""
        for paper, task, backbone in WITHOUT_PRODUCTS:
            same_table = (self.cells['paper'], self.cells['task']) == (paper, task)
            if same_table and self.cells['backbone'].startswith(backbone):
                return False
        return True


@cache
def paper_rows() -> tuple[PaperRow, ...]:
    """Every row of the papers' tables, in the order of the file."""
    with TABLES.open(newline='', encoding='utf-8') as file:
        return tuple(map(PaperRow, csv.DictReader(file)))


def rows_of_config(config: str | Path) -> tuple[PaperRow, ...]:
    """Rows that a config reproduces. It is identified by its path below the last folder named
    `configs`.
    """
    _, folder, below = Path(config).resolve().as_posix().rpartition('/configs/')
    return tuple(row for row in paper_rows() if folder and row.config == f'configs/{below}')


def within_printed_precision(value: float, printed: str) -> bool:
    """Return True if `value` is less than one unit of the last printed digit away: 28.29 of '28'
    and of '29'.
    """
    decimals = len(printed.partition('.')[2])
    return abs(value - float(printed)) < 10**-decimals


def difference(value: float, printed: str) -> str:
    """Format the relative difference: '+1.2%', with '~' if less than one printed unit, '-' if none
    is printed.
    """
    if not printed:
        return '-'
    mark = '~' if within_printed_precision(value, printed) else ''
    percent = round(100 * (value / float(printed) - 1), 1)
    return f'{percent:+.1f}%{mark}' if percent else f'0.0%{mark}'
