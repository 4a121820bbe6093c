"""Inputs for which Factorized Attention states memory and computation, and the numbers that it states."""
from __future__ import annotations

from typing import NamedTuple

from factorized_costs.formulas import Case, costs

MAPS = tuple(Case((side, side), 64) for side in (64, 128, 256))
# The paper does not state the channels of the volumes; see `statements`.
VOLUMES = tuple(Case(grid, c) for grid in ((4, 28, 28), (32, 64, 64)) for c in (64, 512, 1024))
LENGTHS = (128, 512, 2048, 8192)
BERTS = {  # their keys and values have all channels
    'BERT-base': tuple(Case((length, 1), 768, 'Tfm', h=12, part=1, layers=12) for length in LENGTHS),
    'BERT-large': tuple(Case((length, 1), 1024, 'Tfm', h=16, part=1, layers=24) for length in LENGTHS),
}

Figures = tuple[float, float, float]  # by the printed formulas, by the consistent formulas, counted


class Statement(NamedTuple):
    """A number in the paper's text."""

    text: str
    paper: str  # the stated number
    figures: Figures  # memory of a training forward pass
    remark: str = ''  # assumptions under which the formulas give the paper's number, if the printed formulas do not


def conventional(case: Case, quantity: str) -> Figures:
    """Compute GB ('nbytes') or 1e9 operations ('operations') of the conventional module."""
    return tuple(getattr(cost, quantity) / 1e9 for cost in costs('CA', case))


def ratio(case: Case, quantity: str) -> Figures:
    """Compute the ratio of conventional to factorized module for 'nbytes' or 'operations'."""
    return tuple(getattr(ca, quantity) / getattr(fa, quantity) for ca, fa in zip(costs('CA', case), costs('FA', case)))


def statements() -> tuple[Statement, ...]:
    """List every number of sections 1, 3.4 and 5 with the results of formulas and modules."""
    small, middle, large = MAPS
    tiny, long, bert = Case((4, 28, 28), 512), Case((32, 64, 64), 64), BERTS['BERT-base'][0]
    bert_saves = tuple(100 * (1 - 1 / times) for times in ratio(bert, 'nbytes'))
    return (
        Statement('64x64 map, memory CA / FA', '17', ratio(small, 'nbytes')),
        Statement('64x64 map, computation CA / FA', '32', ratio(small, 'operations')),
        Statement('128x128 map, memory of CA, GB', '1', conventional(middle, 'nbytes')),
        Statement('128x128 map, computation of CA, 1e9', '50', conventional(middle, 'operations')),
        Statement('256x256 map, memory of CA, GB', '17.2', conventional(large, 'nbytes')),
        Statement('256x256 map, computation of CA, 1e9', '412', conventional(large, 'operations'),
                  'half of it: counts multiply-accumulates, while the other numbers count operations'),
        Statement('64x64x32 volume, memory of CA, GB', '68', conventional(long, 'nbytes')),
        Statement('64x64x32 volume, computation of CA, 1e9', '3200', conventional(long, 'operations')),
        Statement('64x64x32 volume, memory CA / FA', '32', ratio(long, 'nbytes'),
                  'not with 64 channels; 1024 give 33.0'),
        Statement('64x64x32 volume, computation CA / FA', '1025', ratio(long, 'operations'),
                  'with 64 channels, and CA-dot counted like the other modules'),
        Statement('28x28x4 volume, memory CA / FA', '2', ratio(tiny, 'nbytes')),
        Statement('28x28x4 volume, computation CA / FA', '2', ratio(tiny, 'operations'),
                  'not with the 512 channels of I3D there; 1024 give 1.9'),
        Statement('BERT-base, 128 tokens, memory saved by FA, %', '20', bert_saves,
                  'keys and values of c / 4 channels (Table 11) give 22; 512 tokens give 44'),
    )
