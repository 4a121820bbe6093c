"""Time and peak memory of attentions over the number of tokens, drawn."""
from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mmflatten.analysis.speed.operators import SOFTMAX
from mmflatten.analysis.speed.table import Curves, cost_of, crossovers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS = (('seconds', 'time of one call (s)'), ('mebibytes', 'peak memory of one call (MiB)'))
LINES = ('-', '--', ':')  # ten colours each


def draw_operators(curves: Curves, path: str | Path, title: str = '') -> None:
    """Write a PNG with time on the left and peak memory on the right, both axes logarithmic.

    A ring marks where an attention becomes cheaper than softmax for good; the legend says from which N on.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    tokens = [result.tokens for result in next(iter(curves.values()))]
    figure = Figure(figsize=(14, 5), layout='constrained')
    for axes, (quantity, label) in zip(figure.subplots(1, 2), PANELS):
        _draw_panel(axes, curves, tokens, quantity)
        axes.set(xlabel='tokens N', ylabel=label, xscale='log', yscale='log')
        axes.set_xticks(tokens, [str(number) for number in tokens])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.grid(alpha=.3)
        axes.legend(title='cheaper than softmax for' if SOFTMAX in curves else None, title_fontsize='small',
                    fontsize='small', loc='center left', bbox_to_anchor=(1, .5), frameon=False)
    figure.suptitle(title, fontsize='medium')
    figure.savefig(path, dpi=100)


def _draw_panel(axes: Axes, curves: Curves, tokens: list[int], quantity: str) -> None:
    found = crossovers(curves, quantity)
    costs = {name: [cost_of(result, quantity) for result in results] for name, results in curves.items()}
    for index, name in enumerate(name for name in curves if name != SOFTMAX):
        style = dict(color=f'C{index % 10}', linestyle=LINES[index // 10 % len(LINES)])
        number = found.get(name)
        axes.plot(tokens, costs[name], marker='.', linewidth=1.2, label=f'{name}{_where_cheaper(number)}', **style)
        if number and math.isfinite(number):
            height = np.exp(np.interp(math.log(number), np.log(tokens), np.log(costs[SOFTMAX])))
            axes.plot(number, height, marker='o', markersize=9, markerfacecolor='none', color=style['color'], zorder=4)
    if SOFTMAX in curves:
        axes.plot(tokens, costs[SOFTMAX], 'k.-', linewidth=2.5, label=f'{SOFTMAX} itself', zorder=3)


def _where_cheaper(number: float | None) -> str:
    if number is None:
        return ''
    if number == 0:
        return ', every N'
    return f', N > {number:.0f}' if math.isfinite(number) else ', no N'
