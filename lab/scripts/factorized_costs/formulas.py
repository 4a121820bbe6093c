"""Memory and computation of factorized and conventional attention, by the paper's formulas and counted on the modules.

Source: Shen et al., Factorized Attention, sec. 3.4 and Table 9. `TABLE_9` is as printed; `CONSISTENT` corrects the
contradictions that `docs/factorized.md` lists. The paper's MACC is one multiplication *or* addition, so formulas are
compared with twice the multiply-accumulates of a module.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, NamedTuple

import torch
from factorized_costs.live_memory import live_peak
from torch import nn

from mmflatten.measure.flops.counter import count_operations
from mmflatten.models.attention import ConventionalAttention, FactorizedAttention

BYTES_PER_FLOAT = 4
FEED_FORWARD_RATIO = 4  # hidden channels of the feed-forward network (Tfm) in units of c; not stated in the paper
FORMS = ('dot', 'bot', 'multi', 'Tfm')  # of the paper's modules (Table 8); 'dot' and 'bot' have one head


@dataclass(frozen=True)
class Case:
    """Attention on one input. Attributes are the paper's letters `s, c, b, m, h`."""

    grid: tuple[int, ...]  # (H, W), (T, H, W), or (N, 1) for a sequence
    c: int  # channels
    form: str = 'dot'  # one of `FORMS`
    h: int = 1  # heads
    part: int = 2  # b = m = c / part; 2 is the assumption of Table 10 and of the figures
    layers: int = 1  # number of such modules

    @property
    def s(self) -> int:
        """Number of locations."""
        return prod(self.grid)

    @property
    def b(self) -> int:
        """Channels of the basis or keys, equal to those of the values (`m`). In the form 'dot', values have `c`."""
        return self.c // self.part

    m = b

    @property
    def label(self) -> str:
        """Size as written in the paper: height x width x frames."""
        if len(self.grid) == 3:
            return 'x'.join(map(str, (*self.grid[1:], self.grid[0])))
        return str(self.grid[0]) if self.grid[1] == 1 else 'x'.join(map(str, self.grid))


class Cost(NamedTuple):
    """Memory and computation."""

    nbytes: float  # in float32; for a counted module, peak of a forward pass with the tensors of the backward pass
    operations: float  # multiplications and additions, two per multiply-accumulate
    inference_nbytes: float | None = None  # peak of a counted module without gradients


Formula = Callable[[Case], float]
Formulas = dict[str, tuple[Formula, Formula]]

# Floats in memory and operations, by module. `k` of the conventional modules is `b` here.
TABLE_9: Formulas = {
    'FA-dot': (lambda z: (2 * z.b + 3 * z.c) * z.s + z.b * z.c, lambda z: (8 * z.b * z.c + 2 * z.c ** 2) * z.s),
    'CA-dot': (lambda z: (2 * z.b + 3 * z.c) * z.s + z.s ** 2,
               lambda z: (2 * z.b * z.c + z.c ** 2) * z.s + (2 * z.b + 2 * z.c) * z.s ** 2),
    'FA-bot': (lambda z: 2 * (z.b + z.m + z.c) * z.s + z.b * z.m,
               lambda z: 4 * (z.b * z.c + z.m * z.c + z.b * z.m) * z.s),
    'CA-bot': (lambda z: 2 * (z.b + z.m + z.c) * z.s + z.s ** 2,
               lambda z: 4 * (z.b + z.m) * z.c * z.s + 2 * (z.b + z.m) * z.s ** 2),
    'FA-multi': (lambda z: 2 * (z.b + z.m + z.c) * z.s + z.b * z.m / z.h,
                 lambda z: 4 * (z.b * z.c + z.m * z.c + z.b * z.m / z.h) * z.s),
    'CA-multi': (lambda z: 2 * (z.b + z.m + z.c) * z.s + z.h * z.s ** 2,
                 lambda z: 4 * (z.b + z.m) * z.c * z.s + (2 * z.h * z.b + 2 * z.m) * z.s ** 2),
    # Printed as 4 (b m / h) h; Table 11 has no factor h.
    'FA-Tfm': (lambda z: (2 * z.b + 2 * z.m + 6 * z.c) * z.s + z.b * z.m / z.h,
               lambda z: (4 * z.b * z.c + 4 * z.m * z.c + 4 * z.b * z.m + 5 * z.c ** 2) * z.s),
    'CA-Tfm': (lambda z: (2 * z.b + 2 * z.m + 6 * z.c) * z.s + z.h * z.s ** 2,
               lambda z: (4 * z.b * z.c + 4 * z.m * z.c + 5 * z.c ** 2) * z.s + 2 * (z.b + z.m) * z.s ** 2),
}

# CA-dot: projections count as multiplication and addition, as in all other rows. Others: h heads have b / h channels.
CONSISTENT: Formulas = {
    **TABLE_9,
    'CA-dot': (TABLE_9['CA-dot'][0],
               lambda z: (4 * z.b * z.c + 2 * z.c ** 2) * z.s + (2 * z.b + 2 * z.c) * z.s ** 2),
    'CA-multi': (TABLE_9['CA-multi'][0], TABLE_9['CA-bot'][1]),
    'FA-Tfm': (TABLE_9['FA-Tfm'][0], lambda z: TABLE_9['FA-multi'][1](z) + 5 * z.c ** 2 * z.s),
}


def formula_cost(kind: str, case: Case, table: Formulas = CONSISTENT) -> Cost:
    """Evaluate a table's formulas for all layers of a case; `kind` is 'FA' or 'CA'."""
    floats, operations = table[f'{kind}-{case.form}']
    return Cost(case.layers * BYTES_PER_FLOAT * floats(case), case.layers * operations(case))


def build_module(kind: str, case: Case) -> nn.Module:
    """Build one of the paper's eight attention modules with dot-product normalization."""
    options: dict[str, Any] = dict(reprojection=False) if case.form == 'dot' else dict(value_channels=case.m)
    if case.form in ('multi', 'Tfm'):
        options['num_heads'] = case.h
    if case.form == 'Tfm':
        options['feed_forward_channels'] = FEED_FORWARD_RATIO * case.c
    cls = {'FA': FactorizedAttention, 'CA': ConventionalAttention}[kind]
    return cls(case.c, basis_channels=case.b, normalization='dot', ndim=len(case.grid), **options)


@cache
def counted_cost(kind: str, case: Case) -> Cost:
    """Count the cost of all layers on the meta device. Parameters do not count; inference keeps one layer at a time."""
    with torch.device('meta'):
        module, x = build_module(kind, case), torch.empty(1, case.c, *case.grid)
    return Cost(case.layers * live_peak(module, x, training=True), case.layers * 2 * count_operations(module, x).macs,
                live_peak(module, x))


def costs(kind: str, case: Case) -> tuple[Cost, Cost, Cost]:
    """Return the costs by the printed formulas, by the consistent formulas, and counted."""
    return formula_cost(kind, case, TABLE_9), formula_cost(kind, case), counted_cost(kind, case)
