"""The inputs for which Factorized Attention prints resource figures, and what it prints."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

from mmflatten.analysis.factorized.formulas import (
    CONSISTENT,
    TABLE_9,
    Cost,
    Counted,
    Formulas,
    Sizes,
    count_module,
    formula_cost,
)


@dataclass(frozen=True)
class Case:
    """One input of an attention module."""

    grid: tuple[int, ...]  # (H, W), (T, H, W), or (N, 1) for a sequence
    c: int
    form: str = 'dot'  # or 'Tfm'
    h: int = 1
    layers: int = 1  # how many such modules there are

    @property
    def sizes(self) -> Sizes:
        """The paper's letters."""
        if self.form == 'Tfm':  # BERT's keys and values have all channels
            return Sizes(prod(self.grid), self.c, self.c, self.c, self.h)
        return Sizes.usual(prod(self.grid), self.c)

    @property
    def label(self) -> str:
        """The grid as the paper writes it: height, width, then frames."""
        if len(self.grid) == 3:
            return 'x'.join(map(str, (*self.grid[1:], self.grid[0])))
        return str(self.grid[0]) if self.grid[1] == 1 else 'x'.join(map(str, self.grid))

    def formula(self, kind: str, table: Formulas) -> Cost:
        """Cost of all layers by a table; `kind` is 'FA' or 'CA'."""
        cost = formula_cost(f'{kind}-{self.form}', self.sizes, table)
        return Cost(self.layers * cost.nbytes, self.layers * cost.operations)

    def counted(self, kind: str) -> Counted:
        """Cost of all layers by counting; what inference frees after each layer counts once."""
        one = count_module(f'{kind}-{self.form}', self.sizes, self.grid)
        return Counted(self.layers * one.macs, self.layers * one.training_bytes, one.inference_bytes)


MAPS = tuple(Case((side, side), 64) for side in (64, 128, 256))
# The channels are not printed with the volumes; see `statements`.
VOLUMES = tuple(Case(grid, c) for grid in ((4, 28, 28), (32, 64, 64)) for c in (64, 512, 1024))
LENGTHS = (128, 512, 2048, 8192)
BERTS = {
    'BERT-base': tuple(Case((length, 1), 768, 'Tfm', h=12, layers=12) for length in LENGTHS),
    'BERT-large': tuple(Case((length, 1), 1024, 'Tfm', h=16, layers=24) for length in LENGTHS),
}


@dataclass(frozen=True)
class Statement:
    """A figure of the paper's text."""

    text: str
    paper: str  # the number that it prints
    printed: float  # from the formulas as printed
    consistent: float  # from the formulas without their contradictions
    counted: float  # from the modules; memory is that of a training forward pass
    remark: str = ''  # what it takes to get the paper's number, '' where the printed formulas give it


Triple = tuple[float, float, float]  # by the formulas as printed, by the consistent ones, counted


def _figures(case: Case, unit: str, kind: str = 'CA') -> Triple:
    """Memory ('GB') or computation ('1e9' operations) of one kind of module."""
    formulas, counted = [case.formula(kind, table) for table in (TABLE_9, CONSISTENT)], case.counted(kind)
    if unit == 'GB':
        return (*(cost.nbytes / 1e9 for cost in formulas), counted.training_bytes / 1e9)
    return (*(cost.operations / 1e9 for cost in formulas), 2 * counted.macs / 1e9)


def memory_ratio(case: Case) -> Triple:
    """Memory of the conventional module in units of the factorized one's."""
    return tuple(ca / fa for ca, fa in zip(_figures(case, 'GB', 'CA'), _figures(case, 'GB', 'FA')))


def work_ratio(case: Case) -> Triple:
    """Computation of the conventional module in units of the factorized one's."""
    return tuple(ca / fa for ca, fa in zip(_figures(case, '1e9', 'CA'), _figures(case, '1e9', 'FA')))


def statements() -> tuple[Statement, ...]:
    """Every figure of sections 1, 3.4 and 5, with what formulas and modules give for it."""
    small, middle, large = MAPS
    tiny, long, bert = Case((4, 28, 28), 512), Case((32, 64, 64), 64), BERTS['BERT-base'][0]
    return (
        Statement('64x64 map, memory CA / FA', '17', *memory_ratio(small)),
        Statement('64x64 map, computation CA / FA', '32', *work_ratio(small)),
        Statement('128x128 map, memory of CA, GB', '1', *_figures(middle, 'GB')),
        Statement('128x128 map, computation of CA, 1e9', '50', *_figures(middle, '1e9')),
        Statement('256x256 map, memory of CA, GB', '17.2', *_figures(large, 'GB')),
        Statement('256x256 map, computation of CA, 1e9', '412', *_figures(large, '1e9'),
                  'half of it: multiply-accumulates, where the other figures are operations'),
        Statement('64x64x32 volume, memory of CA, GB', '68', *_figures(long, 'GB')),
        Statement('64x64x32 volume, computation of CA, 1e9', '3200', *_figures(long, '1e9')),
        Statement('64x64x32 volume, memory CA / FA', '32', *memory_ratio(long),
                  'not with 64 channels; 1024 give 33.0'),
        Statement('64x64x32 volume, computation CA / FA', '1025', *work_ratio(long),
                  'with 64 channels, and CA-dot counted as the other modules are'),
        Statement('28x28x4 volume, memory CA / FA', '2', *memory_ratio(tiny)),
        Statement('28x28x4 volume, computation CA / FA', '2', *work_ratio(tiny),
                  'not with the 512 channels of I3D there; 1024 give 1.9'),
        Statement('BERT-base, 128 tokens, memory saved by FA, %', '20',
                  *(100 * (1 - 1 / ratio) for ratio in memory_ratio(bert)),
                  'keys and values of c / 4 channels (Table 11) give 22; 512 tokens give 44'),
    )
