"""What the papers plot of attentions: curves by layer, distributions, matrices, focal levels and biases."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

WIDTH = 3.4  # inches of a panel
LOCAL = ' + local'


def by_layer(curves: Mapping[str, Mapping[str, Sequence[float | None]]], labels: Sequence[str], title: str) -> Figure:
    """A panel for each quantity, in it a line for each model over the number of the layer.

    Args:
        curves: quantity to model to a value for each layer, None where there is none. A model's name that ends in
            `LOCAL` is drawn dashed, in the colour of the model.
        labels: names of the y axes, one for each quantity.
        title: stands above all.
    """
    figure, panels = _panels(len(curves), title)
    names = list(dict.fromkeys(name.removesuffix(LOCAL) for lines in curves.values() for name in lines))
    for panel, label, lines in zip(panels, labels, curves.values()):
        for name, values in lines.items():
            panel.plot([np.nan if value is None else value for value in values], marker='o', markersize=4, label=name,
                       color=f'C{names.index(name.removesuffix(LOCAL)) % 10}', linestyle='--' if LOCAL in name else '-')
        panel.set(xlabel='layer', ylabel=label)
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.grid(alpha=.3)
    _legend(figure, panels)
    return figure


def distribution_figure(curves: Mapping[str, Mapping[str, Sequence[float]]], shares: Sequence[float]) -> Figure:
    """A panel for each layer: how much of its weight a query gives to a share of the keys, the heaviest first."""
    figure, panels = _panels(len(curves), 'Weight held by the keys with the largest weights')
    names = list(dict.fromkeys(name for lines in curves.values() for name in lines))
    for panel, (layer, lines) in zip(panels, curves.items()):
        for name, held in lines.items():
            panel.plot(shares, held, label=name, color=f'C{names.index(name) % 10}')
        panel.plot([0, 1], [0, 1], color='grey', linestyle=':', label='equal weights')
        panel.set(xlabel='share of the keys', ylabel='share of the weight', title=layer)
        panel.grid(alpha=.3)
    _legend(figure, panels)
    return figure


def focusing_figure(curves: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> Figure:
    """Entropy of the weights, as a share of that of equal weights, over the power of the focused function."""
    figure, (panel,) = _panels(1, 'Power of the focused function')
    for name, (powers, entropies) in curves.items():
        panel.plot(powers, entropies, marker='o', label=name)
    panel.set(xlabel='power p', ylabel='entropy / ln M')
    panel.grid(alpha=.3)
    _legend(figure, [panel])
    return figure


def matrices_figure(matrices: Mapping[str, np.ndarray], title: str) -> Figure:
    """Attention matrices `(N, M)`, each scaled to the 99th percentile of its sizes; signed ones are red and blue."""
    figure, panels = _panels(len(matrices), title, columns=4, width=2.7)
    for panel, (name, matrix) in zip(panels, matrices.items()):
        signed, top = matrix.min() < 0, max(np.percentile(np.abs(matrix), 99), np.finfo(np.float32).tiny)
        panel.imshow(matrix, cmap='bwr' if signed else 'viridis', vmin=-top if signed else 0, vmax=top)
        panel.set_title(name, fontsize='small')
        panel.set(xlabel='key', ylabel='query')
    return figure


def levels_figure(models: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """A panel for each model: for each layer the weight on each level, one bar upon the other."""
    figure, panels = _panels(len(models), 'Weight by level of focal attention')
    for panel, (name, levels) in zip(panels, models.items()):
        below = np.zeros(len(next(iter(levels.values()))))
        for level, values in levels.items():
            panel.bar(range(len(below)), values, bottom=below, label=level)
            below = below + np.asarray(values)
        panel.set(xlabel='layer', ylabel='share of the weight', title=name, xticks=range(len(below)))
    _legend(figure, panels)
    return figure


def biases_figure(biases: Mapping[str, np.ndarray], title: str) -> Figure:
    """Learned biases `(side, side)` of the pooled tokens around a window, all on one scale; the window is marked."""
    figure, panels = _panels(len(biases), title, columns=8, width=1.6)
    top = max(np.abs(bias).max() for bias in biases.values())
    for panel, (name, bias) in zip(panels, biases.items()):
        drawn = panel.imshow(bias, cmap='bwr', vmin=-top, vmax=top)
        panel.plot((bias.shape[1] - 1) / 2, (bias.shape[0] - 1) / 2, marker='+', color='black')
        panel.set_title(name, fontsize='small')
        panel.axis('off')
    figure.colorbar(drawn, ax=panels, shrink=.8, label='bias')
    return figure


def _panels(number: int, title: str, columns: int = 3, width: float = WIDTH) -> tuple[Figure, list]:
    columns = min(columns, number)
    rows = -(-number // columns)
    figure = Figure(figsize=(width * columns + 1.2, width * rows + .4), layout='constrained')
    figure.suptitle(title, fontsize='medium')
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel in panels[number:]:
        panel.axis('off')
    return figure, panels[:number]


def _legend(figure: Figure, panels: Sequence) -> None:
    found = {label: line for panel in panels for line, label in zip(*panel.get_legend_handles_labels())}
    figure.legend(found.values(), found.keys(), loc='outside right center', fontsize='small')
