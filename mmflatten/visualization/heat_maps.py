"""Heat over a picture: class activation and effective receptive fields."""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

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
