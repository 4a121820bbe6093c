"""From how many tokens on an attention costs less than softmax."""
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mmflatten.analysis.speed.operators import SOFTMAX
from mmflatten.analysis.speed.table import Row
from mmflatten.analysis.text_table import align

TIME, MEMORY = 'median_s', 'peak_mib'  # columns of a row


def crossover(tokens: Sequence[int], softmax: Sequence[float], other: Sequence[float]) -> float:
    """The number of tokens from which on `other` costs less than `softmax`, up to the last one measured.

    `softmax` and `other` are costs at each of `tokens`, which rise; between them both curves are taken as straight in
    logarithmic axes. 0 where `other` always costs less, infinity where it does not at the last number.
    """
    gaps = np.log(other) - np.log(softmax)
    dearer = np.flatnonzero(gaps >= 0)
    if not len(dearer):
        return 0.
    left = dearer[-1]
    if left == len(gaps) - 1:
        return math.inf
    return float(np.exp(np.interp(0, -gaps[left:left + 2], np.log(tokens[left:left + 2]))))


def say_crossover(tokens: Sequence[int], number: float) -> str:
    """'about 830', 'below 196' or 'above 12544'."""
    if number == 0:
        return f'below {min(tokens)}'
    return f'above {max(tokens)}' if math.isinf(number) else f'about {number:.0f}'


def curves(rows: Sequence[Row], column: str) -> tuple[list[int], dict[str, list[float]]]:
    """The numbers of tokens, and what each attention costs (`TIME` or `MEMORY`) at each of them."""
    costs: dict[str, list[float]] = {}
    for row in rows:
        costs.setdefault(row['name'], []).append(row[column])
    return list(dict.fromkeys(row['tokens'] for row in rows)), costs


def crossovers(rows: Sequence[Row], column: str) -> dict[str, float]:
    """`crossover` of every attention with softmax; empty if softmax was not measured."""
    tokens, costs = curves(rows, column)
    softmax = costs.pop(SOFTMAX, None)
    return {name: crossover(tokens, softmax, other) for name, other in costs.items()} if softmax else {}


def crossover_table(rows: Sequence[Row], markdown: bool = False) -> str:
    """From how many tokens on each attention is cheaper than softmax, which must be among them."""
    (tokens, _), by_memory = curves(rows, MEMORY), crossovers(rows, MEMORY)
    cells = [(name, say_crossover(tokens, number), say_crossover(tokens, by_memory[name]))
             for name, number in crossovers(rows, TIME).items()]
    return align(cells, ('attention', f'faster than {SOFTMAX} from tokens', 'less memory from tokens'), {0}, markdown)
