"""The papers' results, carried with the package: `data/tables.csv`, one row per published result.

A result is a line of a table, once for each detector that the line reports; evaluations of one training that share a
line (classes and boxes, one scale and several) are one result. The same result in two tables is two rows.
`data/printed_rows.csv` holds how many results each table prints, counted in the paper, `data/out_of_reach.csv` those of
models that nothing here can configure, with the reason; the rest are the rows of `tables.csv`. Tables without results
of models (formulas, architectures) are in none of the files.

Of the attentions since (SLAB to Circulant Attention) the rows are what their READMEs print, or what is said of them
where `table` is `paper` or `notes`; a model without any accuracy is there for its config.

A row names the config of this project that reproduces it in its column `config`, a path from the root of the
repository; several rows may name one config. Every number is the paper's own. Where the model is right and yet costs
something else than the row prints, `cause` says why; "Inference: " begins one that is our reading of the figures.
"""
from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLES = Path(__file__).with_name('tables.csv')

# Which rows leave the products of activations out of their FLOPs, by (paper, task, beginning of the backbone's name).
# The evidence is in the tables themselves: for detection Focal and L2ViT give Swin-T 264 G in Mask R-CNN and 245 G in
# RetinaNet, which is without products; with them it has 267 and 248 G. They give PVT-S 245 and 226 G, with products it
# has 305 and 286 G; Focal gives ResNet-50 166 G in Sparse R-CNN, with products it has 169 G. Focal's rows of its own
# models hold them: in RetinaNet these are 265, 367 and 514 G for -T, -S and -B; with products we count 265.0, 365.2
# and 517.3 G. RALA gives RAVLT-T 219 G and -S 262 G in Mask R-CNN; with products they have 272 and 360 G. MALA gives
# MAViT 2.5, 4.6, 9.9 and 16.1 G; with products it has 2.6, 4.9, 10.6 and 17.3 G.
WITHOUT_PRODUCTS = (('focal', 'detection', 'resnet'), ('focal', 'detection', 'pvt'), ('focal', 'detection', 'swin'),
                    ('l2vit', 'detection', ''), ('rala', 'detection', ''), ('mala', 'classification', 'mavit'))

# Papers count FLOPs in ways that differ by this share; parameters are counted by everybody alike.
FLOPS_TOLERANCE = 0.02


@dataclass(frozen=True)
class PaperRow:
    """One published result; `cells` holds every column as printed, '' where the paper gives nothing."""

    cells: dict[str, str]

    @classmethod
    def of(cls, **cells: str) -> PaperRow:
        """A row with these cells and nothing else; one without a `paper` stands for a config of our own."""
        return cls({**dict.fromkeys(paper_rows()[0].cells, ''), **cells})

    @property
    def label(self) -> str:
        """The paper and its table, such as 'flatten 2a'."""
        return f'{self.cells["paper"]} {self.cells["table"]}'

    @property
    def config(self) -> str:
        return self.cells['config']

    @property
    def cause(self) -> str:
        """Why our figures differ from the row's; '' where they agree."""
        return self.cells['cause']

    @property
    def shape(self) -> tuple[int, int] | None:
        """(H, W) the FLOPs are quoted at."""
        size = self.cells['flops_input_hw']
        return tuple(int(side) for side in size.split('x')) if size else None

    @property
    def with_products(self) -> bool:
        """Whether the paper's FLOPs hold the products of activations."""
        return not any((self.cells['paper'], self.cells['task']) == (paper, task)
                       and self.cells['backbone'].startswith(backbone) for paper, task, backbone in WITHOUT_PRODUCTS)

    def params_agree(self, params: int) -> bool | None:
        """Whether a number of parameters rounds to what the row prints; None where it prints none."""
        printed = self.cells['params_m']
        return within_printed_precision(params / 1e6, printed) if printed else None

    def flops_agree(self, flops: int) -> bool | None:
        """Whether FLOPs round to what the row prints or are within 2 % of it; None where it prints none.

        They are to be counted in the paper's convention and at the row's image size.
        """
        printed, value = self.cells['flops_g'], flops / 1e9
        if not printed:
            return None
        return within_printed_precision(value, printed) or abs(value / float(printed) - 1) <= FLOPS_TOLERANCE


def number(cell: str) -> float | None:
    """The number in a cell; None where it is empty, or a word such as 'fail'."""
    try:
        return float(cell)
    except ValueError:
        return None


@cache
def paper_rows() -> tuple[PaperRow, ...]:
    """Every row of the papers' tables, in the order of the file."""
    return tuple(PaperRow(cells) for cells in _read(TABLES.name))


def printed_results() -> list[dict[str, str]]:
    """How many `results` each `table` of each `paper` prints, with a `note` where the count needs one."""
    return _read('printed_rows.csv')


def out_of_reach() -> list[dict[str, str]]:
    """The results without a row: `paper`, `table`, `task`, `model`, and the `reason` why nothing here configures it."""
    return _read('out_of_reach.csv')


def _read(name: str) -> list[dict[str, str]]:
    with TABLES.with_name(name).open(newline='', encoding='utf-8') as file:
        return list(csv.DictReader(file))


def rows_of_config(config: str | Path) -> tuple[PaperRow, ...]:
    """The rows that a config reproduces; it is known by its path from the last folder named `configs` on."""
    _, folder, below = Path(config).resolve().as_posix().rpartition('/configs/')
    return tuple(row for row in paper_rows() if folder and row.config == f'configs/{below}')


def within_printed_precision(value: float, printed: str) -> bool:
    """Whether `value` rounds to the number as the paper prints it, up or down: 28.29 to '28' or '29'."""
    decimals = len(printed.partition('.')[2])
    return abs(value - float(printed)) < 10 ** -decimals


def difference(value: float, printed: str) -> str:
    """How far `value` is from the paper's number: '+1.2%', with '~' when it rounds to that; '-' if none is printed."""
    if not printed:
        return '-'
    mark = '~' if within_printed_precision(value, printed) else ''
    percent = round(100 * (value / float(printed) - 1), 1)
    return f'{percent:+.1f}%{mark}' if percent else f'0.0%{mark}'
