"""Time and peak memory of attentions over the number of tokens, drawn."""
from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mmflatten.analysis.speed.crossovers import MEMORY, TIME, cost_curves, crossovers, say_crossover, tokens_of
from mmflatten.analysis.speed.operators import SOFTMAX
from mmflatten.analysis.speed.table import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS = {TIME: 'time of one call (s)', MEMORY: 'peak memory of one call (MiB)'}
LINES = ('-', '--', ':')  # ten colours each


def draw_operators(rows: Sequence[Row], path: Path, title: str) -> None:
    """Write a PNG with time on the left and peak memory on the right, both axes logarithmic.

    A ring marks where an attention becomes cheaper than softmax for good; the legend says from which N on.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    figure = Figure(figsize=(14, 5), layout='constrained')
    for axes, (column, label) in zip(figure.subplots(1, 2), PANELS.items()):
        _draw_panel(axes, rows, column)
        axes.set(xlabel='tokens N', ylabel=label, xscale='log', yscale='log')
        axes.set_xticks(tokens_of(rows), list(map(str, tokens_of(rows))))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.grid(alpha=.3)
        axes.legend(title=f'cheaper than {SOFTMAX} from N', title_fontsize='small', fontsize='small',
                    loc='center left', bbox_to_anchor=(1, .5), frameon=False)
    figure.suptitle(title, fontsize='medium')
    figure.savefig(path, dpi=100)


def _draw_panel(axes: Axes, rows: Sequence[Row], column: str) -> None:
    tokens, costs = tokens_of(rows), cost_curves(rows, column)
    found = crossovers(rows, column) if SOFTMAX in costs else {}
    softmax = costs.pop(SOFTMAX, None)
    for index, (name, cost) in enumerate(costs.items()):
        style = dict(color=f'C{index % 10}', linestyle=LINES[index // 10 % len(LINES)])
        number = found.get(name, math.inf)
        label = f'{name}: {say_crossover(tokens, number)}' if softmax else name
        axes.plot(tokens, cost, marker='.', linewidth=1.2, label=label, **style)
        if 0 < number < math.inf:
            height = np.exp(np.interp(math.log(number), np.log(tokens), np.log(softmax)))
            axes.plot(number, height, marker='o', markersize=9, markerfacecolor='none', color=style['color'], zorder=4)
    if softmax:
        axes.plot(tokens, softmax, 'k.-', linewidth=2.5, label=SOFTMAX, zorder=3)
