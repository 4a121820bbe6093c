"""Memory and computation of factorized and conventional attention: the paper's formulas, and the modules counted.

Source: Shen et al., Factorized Attention, sec. 3.4 and Table 9. Where the paper contradicts itself is listed in
`docs/factorized.md`; `TABLE_9` is as printed, `CONSISTENT` has the corrected entries. The paper's MACC is one
multiplication *or* addition, so a formula is compared with twice the multiply-accumulates of a module.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import torch
from torch import nn

from mmflatten.analysis.flops.counter import count_operations
from mmflatten.analysis.speed.live_memory import peak_bytes
from mmflatten.models.attention import ConventionalAttention, FactorizedAttention

BYTES_PER_FLOAT = 4
FEED_FORWARD_RATIO = 4  # hidden channels of the network in the Tfm forms, in units of c; the paper names none
FORMS = ('dot', 'bot', 'multi', 'Tfm')


@dataclass(frozen=True)
class Sizes:
    """The paper's letters: `s` locations, `c` channels, `b` of basis or key, `m` of the value, `h` heads."""

    s: int
    c: int
    b: int
    m: int
    h: int = 1

    @classmethod
    def usual(cls, s: int, c: int, h: int = 1) -> Sizes:
        """`b = m = c / 2`, the assumption of Table 10 and of the figures."""
        return cls(s, c, c // 2, c // 2, h)


@dataclass(frozen=True)
class Cost:
    """Bytes in float32, and operations: multiplications and additions, two for a multiply-accumulate."""

    nbytes: float
    operations: float


@dataclass(frozen=True)
class Counted:
    """A real module at work on one input: multiply-accumulates, and live tensors at their peak without parameters."""

    macs: int
    training_bytes: int  # in a forward pass that keeps what the backward pass needs
    inference_bytes: int


Formula = Callable[[Sizes], float]
Formulas = dict[str, tuple[Formula, Formula]]

# Floats and operations by module. `k` of the conventional modules is `b` here.
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
    # Printed as 4 (b m / h) h, with an h that its own Table 11 does not have.
    'FA-Tfm': (lambda z: (2 * z.b + 2 * z.m + 6 * z.c) * z.s + z.b * z.m / z.h,
               lambda z: (4 * z.b * z.c + 4 * z.m * z.c + 4 * z.b * z.m + 5 * z.c ** 2) * z.s),
    'CA-Tfm': (lambda z: (2 * z.b + 2 * z.m + 6 * z.c) * z.s + z.h * z.s ** 2,
               lambda z: (4 * z.b * z.c + 4 * z.m * z.c + 5 * z.c ** 2) * z.s + 2 * (z.b + z.m) * z.s ** 2),
}

# Projections count twice here as they do everywhere else (CA-dot); h heads of b / h channels make b (the others).
CONSISTENT: Formulas = {
    **TABLE_9,
    'CA-dot': (TABLE_9['CA-dot'][0],
               lambda z: (4 * z.b * z.c + 2 * z.c ** 2) * z.s + (2 * z.b + 2 * z.c) * z.s ** 2),
    'CA-multi': (TABLE_9['CA-multi'][0], TABLE_9['CA-bot'][1]),
    'FA-Tfm': (TABLE_9['FA-Tfm'][0], lambda z: TABLE_9['FA-multi'][1](z) + 5 * z.c ** 2 * z.s),
}


def formula_cost(module: str, sizes: Sizes, table: Formulas = CONSISTENT) -> Cost:
    """What a table says a module costs.

    Raises:
        ValueError: a module that the table does not have.
    """
    if module not in table:
        raise ValueError(f'module ({module!r}) must be one of {list(table)}')
    floats, operations = table[module]
    return Cost(BYTES_PER_FLOAT * floats(sizes), operations(sizes))


def build_module(module: str, sizes: Sizes, ndim: int = 2) -> nn.Module:
    """One of the paper's eight attention modules (Table 8) with dot-product normalization, as this project writes it.

    Args:
        module: 'FA-' or 'CA-' and one of `FORMS`.
        sizes: `s` is not used; the forms 'dot' and 'bot' have one head, 'dot' has values of all channels.
        ndim: 2 for maps, 3 for volumes.
    """
    kind, _, form = module.partition('-')
    if kind not in ('FA', 'CA') or form not in FORMS:
        raise ValueError(f"module ({module!r}) must be 'FA-' or 'CA-' and one of {list(FORMS)}")
    options: dict[str, Any] = dict(reprojection=False) if form == 'dot' else dict(value_channels=sizes.m)
    if form in ('multi', 'Tfm'):
        options['num_heads'] = sizes.h
    if form == 'Tfm':
        options['feed_forward_channels'] = FEED_FORWARD_RATIO * sizes.c
    cls = FactorizedAttention if kind == 'FA' else ConventionalAttention
    return cls(sizes.c, basis_channels=sizes.b, normalization='dot', ndim=ndim, **options)


@cache
def count_module(module: str, sizes: Sizes, grid: tuple[int, ...]) -> Counted:
    """Count a module of `build_module(module, sizes)` on a map or volume, on the meta device.

    Raises:
        ValueError: `grid` does not have `sizes.s` locations.
    """
    if prod(grid) != sizes.s:
        raise ValueError(f'grid ({grid}) has {prod(grid)} locations, sizes.s ({sizes.s}) says otherwise')
    with torch.device('meta'):
        built = build_module(module, sizes, ndim=len(grid))
        x = torch.empty(1, sizes.c, *grid)
    return Counted(count_operations(built, x).macs, peak_bytes(built, x, training=True), peak_bytes(built, x))
