"""Figures of attention maps, class activation maps and effective receptive fields."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

COLUMNS = 6
DPI = 100
OPACITY = .85  # of the largest value
SMALLEST = 1e-4  # lower end of the colour scale of a receptive field, relative to its maximum


def attention_figure(picture: np.ndarray, maps: Mapping[str, np.ndarray], query: tuple[float, float] | None,
                     title: str) -> Figure:
    """Draw the picture with the query, then each map over the picture, one square per token.

    Because few tokens can hold most of the weight, the colours of a map end at the 99th percentile of its absolute
    values. Small weights are transparent. The title of each map states its largest weight. In maps with both signs,
    positive weights are red and negative weights blue.

    Args:
        picture: RGB `(H, W, 3)`, 0 to 255.
        maps: name to weights `(h, w)` on a grid over the picture.
        query: `(x, y)` in pixels. None for a token without a position, such as a class token.
        title: title of the figure.
    """
    height, width = picture.shape[:2]
    columns = min(COLUMNS, len(maps) + 1)
    rows = -(-(len(maps) + 1) // columns)
    figure = Figure(figsize=(2.4 * columns, (2.4 * height / width + .35) * rows + .4), layout='constrained')
    figure.suptitle(title, fontsize='medium')
    first, *panels = figure.subplots(rows, columns, squeeze=False).flat
    _draw_attention(first, picture, None, query)
    for panel, (name, weights) in zip(panels, maps.items()):
        _draw_attention(panel, picture, weights, query)
        panel.set_title(f'{name}, max {np.abs(weights).max():.2g}', fontsize='small')
    for panel in panels[len(maps):]:
        panel.axis('off')
    return figure


def attention_pixels(picture: np.ndarray, weights: np.ndarray | None, query: tuple[float, float] | None,
                     side: int) -> np.ndarray:
    """Draw one map of `attention_figure`, or the picture alone, as RGB pixels with `side` as the longer side."""
    height, width = picture.shape[:2]
    scale = side / max(height, width) / DPI
    figure = Figure(figsize=(max(1 / DPI, width * scale), max(1 / DPI, height * scale)), dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    _draw_attention(figure.add_axes((0, 0, 1, 1)), picture, weights, query)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def class_activation_figure(picture: np.ndarray, heat: np.ndarray, title: str,
                            box: Sequence[float] | None = None) -> Figure:
    """Draw the picture, and beside it the heat over the picture. Small values are transparent.

    Args:
        picture: RGB `(H, W, 3)`, 0 to 255.
        heat: `(H, W)`, 0 to 1.
        title: title of the figure.
        box: x1 y1 x2 y2 in pixels.
    """
    height, width = heat.shape
    figure = Figure(figsize=(7, 3.5 * height / width + .4), layout='constrained')
    figure.suptitle(title, fontsize='small')
    panels = figure.subplots(1, 2)
    panels[0].imshow(picture)
    _draw_over(panels[1], picture, heat, 1., cmap='autumn', vmin=0)
    for panel in panels:
        panel.axis('off')
        if box is not None:
            x1, y1, x2, y2 = box
            panel.add_patch(Rectangle((x1 - .5, y1 - .5), x2 - x1, y2 - y1, fill=False, edgecolor='cyan', linewidth=2))
    return figure


def receptive_field_figure(fields: Mapping[str, np.ndarray], title: str) -> Figure:
    """Draw effective receptive fields side by side, each on a logarithmic scale down to 1e-4 of its maximum.

    Args:
        fields: name to values `(H, W)`.
        title: title of the figure.
    """
    height, width = next(iter(fields.values())).shape
    columns = min(4, len(fields))
    rows = -(-len(fields) // columns)
    figure = Figure(figsize=(3 * columns + .6, (3 * height / width + .35) * rows + .4), layout='constrained')
    figure.suptitle(title, fontsize='medium')
    panels = figure.subplots(rows, columns, squeeze=False)
    for panel in panels.flat:
        panel.axis('off')
    for panel, (name, values) in zip(panels.flat, fields.items()):
        image = panel.imshow(np.maximum(values / values.max(), SMALLEST), cmap='magma', norm=LogNorm(SMALLEST, 1))
        panel.set_title(name, fontsize='small')
    figure.colorbar(image, ax=panels, shrink=.8, label='fraction of the largest value')
    return figure


def _draw_attention(panel: Axes, picture: np.ndarray, weights: np.ndarray | None,
                    query: tuple[float, float] | None) -> None:
    if weights is None:
        panel.imshow(picture)
    else:
        top = max(np.percentile(np.abs(weights), 99), np.finfo(np.float32).tiny)
        signed = weights.min() < 0
        _draw_over(panel, picture, weights, top, cmap='bwr' if signed else 'autumn', vmin=-top if signed else 0,
                   interpolation='nearest')
    panel.axis('off')
    if query is not None:
        panel.plot(*query, marker='+', markersize=12, markeredgewidth=2, color='cyan')


def _draw_over(panel: Axes, picture: np.ndarray, values: np.ndarray, top: float, **options: object) -> None:
    """Draw values over the grey picture, transparent at 0 and most opaque at `top`; options are those of `imshow`."""
    height, width = picture.shape[:2]
    panel.imshow(picture.mean(-1), cmap='gray', vmin=0, vmax=255)
    panel.imshow(values, vmax=top, extent=(-.5, width - .5, height - .5, -.5),
                 alpha=OPACITY * np.clip(np.abs(values) / top, 0, 1), **options)
