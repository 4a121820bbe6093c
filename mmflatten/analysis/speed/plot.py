"""Time and peak memory of attentions over the number of tokens, drawn."""
from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mmflatten.analysis.speed.crossovers import MEMORY, TIME, crossovers, curves, say_crossover
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
