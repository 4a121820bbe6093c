"""Renderer of all figures: PNG files for the commands, SVG for the report page."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from functools import singledispatch
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure, FigureBase

from mmflatten.engine.fonts import fonts_for
from mmflatten.results.figures import Confusion, Lines, Plot
from mmflatten.text import figure_text

COLOURS = ('#2f74d0', '#e0702a', '#2d9c6b', '#b0509b', '#8467c9', '#b8922a', '#3aa0b3', '#c94f5a')
DASHES = ('-', '--', ':', '-.')
# from transparent to opaque
HEAT = LinearSegmentedColormap.from_list('heat', [f'{COLOURS[0]}00', f'{COLOURS[0]}ff'])
STYLE = {
    'axes.axisbelow': True,
    'axes.spines.top': False,
    'axes.spines.right': False,
    'grid.alpha': 0.3,
    'legend.fontsize': 'small',
    'legend.frameon': False,
    'svg.fonttype': 'none',
}
MAX_NAMES = 40  # names along an axis that stay readable
MAX_NUMBERS = 15  # classes of a matrix whose cells hold a number
MAX_LEGEND = 12  # lines with a legend in the axes
MAX_LEGEND_BESIDE = 20  # lines with a legend beside the axes


def save_png(path: str | Path, panels: Mapping[str, Plot], columns: int = 3) -> None:
    """Draw titled panels, at most `columns` in a row, into a PNG file."""
    names: list[str] = []
    for plot in panels.values():
        names += plot.names if isinstance(plot, Confusion) else plot.lines
    with rc_context({**STYLE, **fonts_for(''.join(names))}):
        _figure(panels, columns).savefig(path, dpi=100)


def svg(plot: Plot) -> str:
    """Draw a figure as inline SVG; black becomes `currentColor`, so that the page's theme
    applies.
    """
    file = io.StringIO()
    # None leaves a field out, so that the same plot has the same text.
    metadata = dict.fromkeys(('Creator', 'Date', 'Format', 'Type'))
    with rc_context(STYLE):
        _figure({'': plot}).savefig(file, format='svg', transparent=True, metadata=metadata)
    text = file.getvalue()
    # Ids such as "axes_1" are not referenced and would repeat on a page.
    text = re.sub(r' id="[\w.]+_\d+"', '', text[text.index('<svg') :])
    # The style sheet would apply to the whole page.
    text = re.sub(r'<defs>\s*<style.*?</defs>', '', text, count=1, flags=re.DOTALL)
    return text.replace('#000000', 'currentColor')


def _figure(panels: Mapping[str, Plot], columns: int = 1) -> Figure:
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    width, height = np.max([_size(plot) for plot in panels.values()], axis=0)
    figure = Figure(figsize=(columns * width, rows * height), layout='constrained')
    parts = figure.subfigures(rows, columns, squeeze=False).flatten()
    for (title, plot), part in zip(panels.items(), parts):
        if title:
            part.suptitle(figure_text(title))
        _draw(plot, part)
    return figure


def _size(plot: Plot) -> tuple[float, float]:
    """Return width and height in inches."""
    if isinstance(plot, Confusion):
        side = 3.5 + 0.22 * min(len(plot.names), MAX_NAMES)
        return side + 1, side
    if plot.log:  # many lines, with a legend beside them
        return 7, max(4, 0.2 * len(plot.lines))
    return (5.5, 4) if plot.mean else (4.5, 3.2)


@singledispatch
def _draw(plot: Lines, figure: FigureBase) -> None:
    axes = figure.subplots()
    for number, (name, (x, y)) in enumerate(plot.lines.items()):
        dash = (number + number // len(COLOURS)) % len(DASHES)  # 32 lines differ
        style = dict(color=COLOURS[number % len(COLOURS)], linestyle=DASHES[dash])
        if name == plot.mean:
            style = dict(color='black', linewidth=2.5)
        if not len(x):
            continue
        has_marker = plot.markers or len(x) == 1
        axes.plot(
            x,
            np.asarray(y, dtype=float),
            label=figure_text(name),
            markersize=4,
            marker='o' if has_marker else '',
            **style,
        )
    if plot.log:
        axes.set(xscale='log', yscale='log')
    elif plot.ticks:
        axes.set_xticks(range(len(plot.ticks)), plot.ticks)
    else:
        axes.locator_params(axis='x', nbins=5)
    axes.set(xlabel=plot.x_label, ylabel=plot.y_label, ylim=plot.limits)
    axes.grid()
    if plot.log or (plot.mean and len(plot.lines) <= MAX_LEGEND_BESIDE):
        axes.legend(loc='center left', bbox_to_anchor=(1, 0.5))
    elif 1 < len(plot.lines) <= MAX_LEGEND:
        axes.legend()


@_draw.register
def _(plot: Confusion, figure: FigureBase) -> None:
    axes = figure.subplots()
    fractions = plot.matrix / np.maximum(plot.matrix.sum(1, keepdims=True), 1)
    image = axes.imshow(fractions, cmap=HEAT, vmin=0, vmax=1, interpolation='none')
    figure.colorbar(image, ax=axes, label='fraction of the true class', shrink=0.8)
    axes.set(xlabel='predicted', ylabel='true', xticks=[], yticks=[])
    if len(plot.names) <= MAX_NAMES:
        names = [figure_text(name) for name in plot.names]
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize='small')
        axes.set_yticks(range(len(names)), names, fontsize='small')
    if len(plot.names) <= MAX_NUMBERS:
        for row, column in np.argwhere(fractions >= 0.005):
            axes.text(
                column,
                row,
                f'{fractions[row, column]:.2f}',
                ha='center',
                va='center',
                fontsize='x-small',
                color='white' if fractions[row, column] > 0.5 else 'black',
            )
