"""Time and peak memory of attentions over the number of tokens, drawn."""
from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mmflatten.analysis.speed.operators import SOFTMAX
from mmflatten.analysis.speed.table import Curve, crossovers
from mmflatten.requirements import Library, inspect

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MATPLOTLIB = Library('matplotlib', 'matplotlib', '>=3.8', '3.11.2', 'the plot')
PANELS = (('seconds', 'time of one call (s)'), ('mebibytes', 'peak memory of one call (MiB)'))
LINES = ('-', '--', ':')  # ten colours each


def check_matplotlib() -> None:
    """Raise ImportError, with the command that mends it, where nothing can be drawn."""
    status = inspect(MATPLOTLIB)
    if status.state != 'ok':
        raise ImportError(status.message)


def draw_operators(curves: Sequence[Curve], path: str | Path, title: str = '') -> None:
    """Draw time on the left and peak memory on the right, both axes logarithmic.

    A ring marks where an attention becomes cheaper than softmax for good; the legend says from which N on.

    Args:
        curves: over the same numbers of tokens.
        path: PNG to write.
        title: above both panels.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    figure = Figure(figsize=(14, 5), layout='constrained')
    FigureCanvasAgg(figure)
    for axes, (quantity, label) in zip(figure.subplots(1, 2), PANELS):
        _draw_panel(axes, curves, quantity)
        axes.set(xlabel='tokens N', ylabel=label, xscale='log', yscale='log')
        axes.set_xticks(curves[0].tokens, [str(number) for number in curves[0].tokens])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.grid(alpha=.3)
        axes.legend(title='cheaper than softmax for' if any(curve.name == SOFTMAX for curve in curves) else None,
                    title_fontsize='small', fontsize='small', loc='center left', bbox_to_anchor=(1, .5), frameon=False)
    figure.suptitle(title, fontsize='medium')
    figure.savefig(path, dpi=100)


def _draw_panel(axes: Axes, curves: Sequence[Curve], quantity: str) -> None:
    softmax = next((curve for curve in curves if curve.name == SOFTMAX), None)
    found = crossovers(curves, quantity)
    for index, curve in enumerate([curve for curve in curves if curve is not softmax]):
        number = found.get(curve.name, math.nan)
        crosses = 0 < number < math.inf
        style = dict(color=f'C{index % 10}', linestyle=LINES[index // 10 % len(LINES)])
        axes.plot(curve.tokens, getattr(curve, quantity), marker='.', linewidth=1.2, **style,
                  label=f'{curve.name}{_where_cheaper(number)}')
        if crosses:
            axes.plot(number, _at(softmax, quantity, number), marker='o', markersize=9, markerfacecolor='none',
                      color=style['color'], linestyle='none', zorder=4)
    if softmax is not None:
        axes.plot(softmax.tokens, getattr(softmax, quantity), 'k.-', linewidth=2.5, label=f'{SOFTMAX} itself', zorder=3)


def _where_cheaper(number: float) -> str:
    if math.isnan(number):
        return ''
    return {0.: ', every N', math.inf: ', no N'}.get(number, f', N > {number:.0f}')


def _at(curve: Curve, quantity: str, number: float) -> float:
    """A curve's value between two measured numbers of tokens, on a straight line in logarithmic axes."""
    values = getattr(curve, quantity)
    right = next(index for index, tokens in enumerate(curve.tokens) if tokens >= number)
    left = max(right - 1, 0)
    if left == right:
        return values[right]
    share = math.log(number / curve.tokens[left]) / math.log(curve.tokens[right] / curve.tokens[left])
    return values[left] ** (1 - share) * values[right] ** share
