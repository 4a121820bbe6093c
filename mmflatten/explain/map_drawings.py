"""Where a query attends, over the picture."""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

COLUMNS = 6
DPI = 100


def attention_figure(picture: np.ndarray, maps: Mapping[str, np.ndarray], query: tuple[float, float] | None,
                     title: str) -> Figure:
    """The picture with the query marked, then each map over it, in squares as large as its tokens.

    Each map is scaled to the 99th percentile of its sizes, since few tokens can hold most of the weight, and
    transparent where it is small; above it stands its largest weight. Maps of both signs are red where positive and
    blue where negative.

    Args:
        picture: RGB `(H, W, 3)`, 0 to 255.
        maps: name to weights `(h, w)` on a grid over the picture.
        query: `(x, y)` in pixels; None for a token without a place, such as a class token.
        title: stands above all.
    """
    height, width = picture.shape[:2]
    columns = min(COLUMNS, len(maps) + 1)
    rows = -(-(len(maps) + 1) // columns)
    figure = Figure(figsize=(2.4 * columns, (2.4 * height / width + .35) * rows + .4), layout='constrained')
    figure.suptitle(title, fontsize='medium')
    first, *panels = figure.subplots(rows, columns, squeeze=False).flat
    _draw(first, picture, None, query)
    for panel, (name, weights) in zip(panels, maps.items()):
        _draw(panel, picture, weights, query)
        panel.set_title(f'{name}, max {np.abs(weights).max():.2g}', fontsize='small')
    for panel in panels[len(maps):]:
        panel.axis('off')
    return figure


def attention_pixels(picture: np.ndarray, weights: np.ndarray | None, query: tuple[float, float] | None,
                     side: int) -> np.ndarray:
    """One map over the picture, or the picture alone, as RGB pixels whose longer side is `side`; see above."""
    height, width = picture.shape[:2]
    scale = side / max(height, width) / DPI
    figure = Figure(figsize=(max(1 / DPI, width * scale), max(1 / DPI, height * scale)), dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    _draw(figure.add_axes((0, 0, 1, 1)), picture, weights, query)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _draw(panel: Axes, picture: np.ndarray, weights: np.ndarray | None, query: tuple[float, float] | None) -> None:
    height, width = picture.shape[:2]
    if weights is None:
        panel.imshow(picture)
    else:
        panel.imshow(picture.mean(-1), cmap='gray', vmin=0, vmax=255)
        signed, top = weights.min() < 0, max(np.percentile(np.abs(weights), 99), np.finfo(np.float32).tiny)
        panel.imshow(weights, cmap='bwr' if signed else 'autumn', vmin=-top if signed else 0, vmax=top,
                     extent=(-.5, width - .5, height - .5, -.5), interpolation='nearest',
                     alpha=.85 * np.clip(np.abs(weights) / top, 0, 1))
    panel.axis('off')
    if query is not None:
        panel.plot(*query, marker='+', markersize=12, markeredgewidth=2, color='cyan')
