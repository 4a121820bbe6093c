"""Drawings of attentions as in the papers: curves by layer, distributions, matrices, receptive
fields, focal levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from mmflatten.explain.drawings import panel_grid
from mmflatten.text import figure_text

WIDTH = 3.4  # of a panel, in inches
LOCAL = ' + local'
SMALLEST = 1e-4  # lower end of the colour scale of a receptive field, relative to its maximum


def by_layer(
    curves: Mapping[str, Mapping[str, Sequence[float | None]]],
    labels: Sequence[str],
    title: str,
    spreads: Mapping[str, Mapping[str, Sequence[float | None]]] | None = None,
) -> Figure:
    """Draw a panel for each quantity, with a line for each model over the layer number.

    Args:
        curves: quantity -> model -> value for each layer, None if it has none. A model whose name
            ends in `LOCAL` gets a dashed line in the colour of the model without it.
        labels: titles of the y axes, one for each quantity.
        title: title of the figure.
        spreads: lengths of error bars, as `curves`.
    """
    figure, panels = _panels(len(curves), title)
    models = [name.removesuffix(LOCAL) for name in _names_of_lines(curves)]
    names = list(dict.fromkeys(models))
    for panel, label, (key, lines) in zip(panels, labels, curves.items()):
        for name, values in lines.items():
            bars = None if spreads is None else np.array(spreads[key][name], dtype=float)
            panel.errorbar(
                x=range(len(values)),
                y=np.array(values, dtype=float),
                yerr=bars,
                marker='o',
                markersize=4,
                label=name,
                capsize=2,
                linestyle='--' if LOCAL in name else '-',
                color=f'C{names.index(name.removesuffix(LOCAL)) % 10}',
            )
        panel.set(xlabel='layer', ylabel=label)
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.grid(alpha=0.3)
    _legend(figure, panels)
    return figure


def distribution_figure(
    curves: Mapping[str, Mapping[str, Sequence[float]]], shares: Sequence[float]
) -> Figure:
    """Draw a panel for each layer: fraction of the weight over the fraction of the keys, heaviest
    keys first.
    """
    figure, panels = _panels(len(curves), 'Weight held by the keys with the largest weights')
    names = _names_of_lines(curves)
    for panel, (layer, lines) in zip(panels, curves.items()):
        for name, held in lines.items():
            panel.plot(shares, held, label=name, color=f'C{names.index(name) % 10}')
        panel.plot([0, 1], [0, 1], color='grey', linestyle=':', label='equal weights')
        panel.set(xlabel='share of the keys', ylabel='share of the weight', title=layer)
        panel.grid(alpha=0.3)
    _legend(figure, panels)
    return figure


def focusing_figure(curves: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> Figure:
    """Draw the entropy of the weights, relative to equal weights, over the power of the focused
    function.
    """
    figure, (panel,) = _panels(1, 'Power of the focused function')
    for name, (powers, entropies) in curves.items():
        panel.plot(powers, entropies, marker='o', label=name)
    panel.set(xlabel='power p', ylabel='entropy / ln M')
    panel.grid(alpha=0.3)
    _legend(figure, [panel])
    return figure


def matrices_figure(matrices: Mapping[str, np.ndarray], title: str) -> Figure:
    """Draw attention matrices `(N, M)`, each scaled to the 99th percentile of its absolute values.

    Matrices with negative values are drawn in red and blue.
    """
    figure, panels = _panels(len(matrices), title, columns=4, width=2.7)
    for panel, (name, matrix) in zip(panels, matrices.items()):
        top = max(np.percentile(np.abs(matrix), 99), np.finfo(np.float32).tiny)
        if matrix.min() < 0:
            panel.imshow(matrix, cmap='bwr', vmin=-top, vmax=top)
        else:
            panel.imshow(matrix, cmap='viridis', vmin=0, vmax=top)
        panel.set_title(name, fontsize='small')
        panel.set(xlabel='key', ylabel='query')
    return figure


def levels_figure(models: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """Draw a panel for each model, with a stacked bar of the weight on each level for every
    layer.
    """
    figure, panels = _panels(len(models), 'Weight by level of focal attention')
    for panel, (name, levels) in zip(panels, models.items()):
        below = np.zeros(len(next(iter(levels.values()))))
        for level, values in levels.items():
            panel.bar(range(len(below)), values, bottom=below, label=level)
            below = below + np.asarray(values)
        panel.set(
            xlabel='layer', ylabel='share of the weight', title=name, xticks=range(len(below))
        )
    _legend(figure, panels)
    return figure


def biases_figure(biases: Mapping[str, np.ndarray], title: str) -> Figure:
    """Draw learned biases `(heads, side, side)` of the pooled tokens around a window, which a cross
    marks.

    A row for each name, a column for each head, on one scale.
    """
    columns = max(map(len, biases.values()))
    figure, panels = _panels(len(biases) * columns, title, columns, width=1.6)
    top = max(np.abs(heads).max() for heads in biases.values())
    for panel, (row, head) in zip(panels, np.ndindex(len(biases), columns)):
        name, heads = list(biases.items())[row]
        panel.axis('off')
        if head < len(heads):
            drawn = panel.imshow(heads[head], cmap='bwr', vmin=-top, vmax=top)
            middle = (heads.shape[1] - 1) / 2
            panel.plot(middle, middle, marker='+', color='black')
            panel.set_title(f'head {head}' if head else name, fontsize='small')
    figure.colorbar(drawn, ax=panels, shrink=0.8, label='bias')
    return figure


def _names_of_lines(curves: Mapping[str, Mapping[str, Sequence]]) -> list[str]:
    """Return the names of the lines of all panels, in the order of their first appearance."""
    names: dict[str, None] = {}
    for lines in curves.values():
        names.update(dict.fromkeys(lines))
    return list(names)


def _panels(number: int, title: str, columns: int = 3, width: float = WIDTH) -> tuple[Figure, list]:
    columns = min(columns, number)
    rows = -(-number // columns)
    figure = Figure(figsize=(width * columns + 1.2, width * rows + 0.4), layout='constrained')
    figure.suptitle(title, fontsize='medium')
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel in panels[number:]:
        panel.axis('off')
    return figure, panels[:number]


def _legend(figure: Figure, panels: Sequence) -> None:
    lines = {}
    for panel in panels:
        for line, label in zip(*panel.get_legend_handles_labels()):
            lines[label] = line
    figure.legend(lines.values(), lines.keys(), loc='outside right center', fontsize='small')


def receptive_field_figure(fields: Mapping[str, np.ndarray], title: str) -> Figure:
    """Draw effective receptive fields `(H, W)` side by side, each on a logarithmic scale relative
    to its maximum.
    """
    shape = next(iter(fields.values())).shape
    figure, panels = panel_grid(len(fields), 4, 3.3, shape, title)
    for panel, (name, values) in zip(panels, fields.items()):
        relative = np.maximum(values / values.max(), SMALLEST)
        image = panel.imshow(relative, cmap='magma', norm=LogNorm(SMALLEST, 1))
        panel.set_title(figure_text(name), fontsize='small')
    figure.colorbar(image, ax=panels, shrink=0.8, label='fraction of the largest value')
    return figure
