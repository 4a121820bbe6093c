"""Figures of attention maps."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mmflatten.text import figure_text

OPACITY = 0.85  # of the largest value


def attention_figure(
    picture: np.ndarray,
    maps: Mapping[str, np.ndarray],
    query: tuple[float, float] | None,
    title: str,
) -> Figure:
    """Draw the picture with the query, then each map over the picture, one square per token.

    Because few tokens can hold most of the weight, the colours of a map end at the 99th percentile
    of its absolute values. Small weights are transparent. The title of each map states its largest
    weight. In maps with both signs, positive weights are red and negative weights blue.

    Args:
        picture: RGB `(H, W, 3)`, 0 to 255.
        maps: name to weights `(h, w)` on a grid over the picture.
        query: `(x, y)` in pixels. None for a token without a position, such as a class token.
    """
    figure, (first, *panels) = panel_grid(
        len(maps) + 1, columns=6, width=2.4, shape=picture.shape[:2], title=title
    )
    draw_attention(first, picture, weights=None, query=query)
    for panel, (name, weights) in zip(panels, maps.items()):
        draw_attention(panel, picture, weights=weights, query=query)
        panel.set_title(figure_text(f'{name}, max {np.abs(weights).max():.2g}'), fontsize='small')
    return figure


def panel_grid(
    number: int, columns: int, width: float, shape: Sequence[int], title: str
) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels of `width` inches for pictures of one shape.

    A row has at most `columns` panels.
    """
    columns = min(columns, number)
    rows = -(-number // columns)
    height = width * shape[0] / shape[1] + 0.35
    figure = Figure(figsize=(width * columns, height * rows + 0.4), layout='constrained')
    figure.suptitle(figure_text(title), fontsize='small')
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel in panels:
        panel.axis('off')
    return figure, panels


def draw_attention(
    panel: Axes, picture: np.ndarray, weights: np.ndarray | None, query: tuple[float, float] | None
) -> None:
    """Draw a map of `attention_figure` into a panel, or the picture alone."""
    if weights is None:
        panel.imshow(picture)
    else:
        top = max(np.percentile(np.abs(weights), 99), np.finfo(np.float32).tiny)
        signed = weights.min() < 0
        height, width = picture.shape[:2]
        panel.imshow(picture.mean(-1), cmap='gray', vmin=0, vmax=255)
        panel.imshow(
            weights,
            cmap='bwr' if signed else 'autumn',
            vmin=-top if signed else 0,
            vmax=top,
            interpolation='nearest',
            extent=(-0.5, width - 0.5, height - 0.5, -0.5),
            alpha=OPACITY * np.clip(np.abs(weights) / top, 0, 1),
        )
    if query is not None:
        panel.plot(*query, marker='+', markersize=12, markeredgewidth=2, color='cyan')
