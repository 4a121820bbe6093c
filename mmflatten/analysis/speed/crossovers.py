"""From how many tokens on an attention costs less than softmax: curves, the table of crossovers, and their drawing."""
from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mmflatten.analysis.speed.operators import SOFTMAX
from mmflatten.analysis.speed.table import Row
from mmflatten.analysis.text_table import align

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TIME, MEMORY = 'median_s', 'peak_mib'  # columns of a row
PANELS = {TIME: 'time of one call (s)', MEMORY: 'peak memory of one call (MiB)'}
LINES = ('-', '--', ':')  # ten colours each


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


def draw_operators(rows: Sequence[Row], path: Path, title: str) -> None:
    """Write a PNG with time on the left and peak memory on the right, both axes logarithmic.

    A ring marks where an attention becomes cheaper than softmax for good; the legend says from which N on.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    figure = Figure(figsize=(14, 5), layout='constrained')
    for axes, (column, label) in zip(figure.subplots(1, 2), PANELS.items()):
        tokens, costs = curves(rows, column)
        _draw_panel(axes, tokens, costs, crossovers(rows, column))
        axes.set(xlabel='tokens N', ylabel=label, xscale='log', yscale='log')
        axes.set_xticks(tokens, list(map(str, tokens)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.grid(alpha=.3)
        axes.legend(title=f'cheaper than {SOFTMAX} from N', title_fontsize='small', fontsize='small',
                    loc='center left', bbox_to_anchor=(1, .5), frameon=False)
    figure.suptitle(title, fontsize='medium')
    figure.savefig(path, dpi=100)


def _draw_panel(axes: Axes, tokens: list[int], costs: dict[str, list[float]], found: dict[str, float]) -> None:
    for index, name in enumerate(name for name in costs if name != SOFTMAX):
        color, line = f'C{index % 10}', LINES[index // 10 % len(LINES)]
        label = f'{name}: {say_crossover(tokens, found[name])}' if found else name
        axes.plot(tokens, costs[name], line, color=color, marker='.', linewidth=1.2, label=label)
        if 0 < found.get(name, 0) < math.inf:
            height = np.exp(np.interp(math.log(found[name]), np.log(tokens), np.log(costs[SOFTMAX])))
            axes.plot(found[name], height, 'o', markersize=9, markerfacecolor='none', color=color, zorder=4)
    if found:
        axes.plot(tokens, costs[SOFTMAX], 'k.-', linewidth=2.5, label=SOFTMAX, zorder=3)
