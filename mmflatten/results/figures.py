"""Figures of predictions beside the truth: matrices, curves, bars and histograms; their numbers, and `draw()`."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

MAX_NAMES = 40  # more names than this cannot be read along an axis
MAX_NUMBERS = 15


@dataclass(frozen=True)
class Confusion:
    """Numbers (classes, classes); true classes are rows, predicted ones columns. Shares of each row are drawn."""

    matrix: np.ndarray
    names: Sequence[str]

    @property
    def shares(self) -> np.ndarray:
        return self.matrix / np.maximum(self.matrix.sum(1, keepdims=True), 1)

    def draw(self) -> Figure:
        shares = self.shares
        side = 3.5 + 0.22 * min(len(self.names), MAX_NAMES)
        figure = Figure(figsize=(side + 1, side), layout='constrained')
        axes = figure.subplots()
        figure.colorbar(axes.imshow(shares, cmap='Blues', vmin=0, vmax=1), ax=axes, label='share of the true class')
        axes.set(xlabel='predicted', ylabel='true')
        if len(self.names) <= MAX_NAMES:
            axes.set_xticks(range(len(self.names)), self.names, rotation=90, fontsize='small')
            axes.set_yticks(range(len(self.names)), self.names, fontsize='small')
        for row, column in np.argwhere(shares >= 0.005) if len(self.names) <= MAX_NUMBERS else ():
            axes.text(column, row, f'{shares[row, column]:.2f}', ha='center', va='center', fontsize='x-small',
                      color='white' if shares[row, column] > 0.5 else 'black')
        return figure


@dataclass(frozen=True)
class PrecisionRecall:
    """Precision (n,) of each name over recall (n,); the one called `mean` is drawn in black."""

    recall: np.ndarray
    precision: Mapping[str, np.ndarray]
    mean: str

    def draw(self) -> Figure:
        figure = Figure(figsize=(6.5, 4.5), layout='constrained')
        axes = figure.subplots()
        for name, values in self.precision.items():
            style = dict(color='black', linewidth=2.5) if name == self.mean else dict(linewidth=1)
            axes.plot(self.recall, values, label=name, **style)
        axes.set(xlabel='recall', ylabel='precision', xlim=(0, 1), ylim=(0, 1.02))
        axes.grid(alpha=.3)
        if len(self.precision) <= MAX_NAMES // 2:
            axes.legend(fontsize='small', loc='center left', bbox_to_anchor=(1, .5))
        return figure


@dataclass(frozen=True)
class Reliability:
    """How often predictions of each confidence are right, above how many there are.

    Attributes:
        confidence, accuracy, counts: (bins,), of bins that hold predictions.
        error: the expected calibration error, for the title.
    """

    confidence: np.ndarray
    accuracy: np.ndarray
    counts: np.ndarray
    error: float

    def draw(self) -> Figure:
        figure = Figure(figsize=(5, 5.5), layout='constrained')
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        top.plot([0, 1], [0, 1], color='grey', linestyle='--', label='calibrated')
        top.plot(self.confidence, self.accuracy, marker='o', label='model')
        top.set(ylabel='share that is right', xlim=(0, 1), ylim=(0, 1.02),
                title=f'expected calibration error {self.error:.3f}')
        top.legend(loc='upper left')
        bottom.bar(self.confidence, self.counts, width=0.05)
        bottom.set(xlabel='confidence', ylabel='predictions')
        for axes in (top, bottom):
            axes.grid(alpha=.3)
        return figure


@dataclass(frozen=True)
class Bars:
    """A horizontal bar for each name, the first on top."""

    values: Mapping[str, float]
    label: str

    def draw(self) -> Figure:
        figure = Figure(figsize=(6.5, 1.2 + 0.3 * len(self.values)), layout='constrained')
        axes = figure.subplots()
        bars = axes.barh(list(self.values), np.nan_to_num(list(self.values.values())))
        axes.bar_label(bars, fmt='%.3g', padding=2, fontsize='small')
        axes.set(xlabel=self.label)
        axes.margins(x=.12)
        axes.invert_yaxis()
        return figure


@dataclass(frozen=True)
class Histogram:
    """Counts (n,) of pixels between edges (n + 1,), drawn on a logarithmic scale."""

    edges: np.ndarray
    counts: np.ndarray
    label: str

    def draw(self) -> Figure:
        figure = Figure(figsize=(6.5, 3.5), layout='constrained')
        axes = figure.subplots()
        axes.stairs(self.counts, self.edges, fill=True)
        axes.set(xlabel=self.label, ylabel='pixels', yscale='log')
        axes.grid(alpha=.3)
        return figure
