"""Heat over a picture: class activation and effective receptive fields."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

DECADES = 1e-4  # a receptive field is drawn down to this share of its largest value


def receptive_field_figure(fields: Mapping[str, np.ndarray], title: str) -> Figure:
    """Effective receptive fields side by side, on a logarithmic scale down to a ten-thousandth of each one's largest.

    Args:
        fields: name to values `(H, W)`.
        title: stands above all.
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
        drawn = panel.imshow(np.maximum(values / values.max(), DECADES), cmap='magma', norm=LogNorm(DECADES, 1))
        panel.set_title(name, fontsize='small')
    figure.colorbar(drawn, ax=panels, shrink=.8, label='share of the largest value')
    return figure


def class_activation_figure(picture: np.ndarray, heat: np.ndarray, title: str,
                            box: Sequence[float] | None = None) -> Figure:
    """The picture, and the heat over it, transparent where it is small.

    Args:
        picture: RGB `(H, W, 3)`, 0 to 255.
        heat: `(H, W)`, 0 to 1.
        title: stands above both.
        box: x1 y1 x2 y2 in pixels.
    """
    height, width = heat.shape
    figure = Figure(figsize=(7, 3.5 * height / width + .4), layout='constrained')
    figure.suptitle(title, fontsize='small')
    plain, hot = figure.subplots(1, 2)
    plain.imshow(picture)
    hot.imshow(picture.mean(-1), cmap='gray', vmin=0, vmax=255)
    hot.imshow(heat, cmap='autumn', vmin=0, vmax=1, alpha=.85 * heat)
    for panel in (plain, hot):
        panel.axis('off')
        if box is not None:
            x1, y1, x2, y2 = box
            panel.add_patch(Rectangle((x1 - .5, y1 - .5), x2 - x1, y2 - y1, fill=False, edgecolor='cyan', linewidth=2))
    return figure
