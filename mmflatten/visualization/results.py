"""Figures of predictions beside the truth: matrices, curves, bars and histograms."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

MAX_NAMES = 40  # more names than this cannot be read along an axis
MAX_NUMBERS = 15


def confusion_figure(matrix: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> Figure:
    """Shares of each row, which is a true class; what is predicted stands below."""
    shares = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
    side = 3.5 + 0.22 * min(len(rows), MAX_NAMES)
    figure = Figure(figsize=(side + 1, side), layout='constrained')
    axes = figure.subplots()
    figure.colorbar(axes.imshow(shares, cmap='Blues', vmin=0, vmax=1), ax=axes, label='share of the true class')
    axes.set(xlabel='predicted', ylabel='true')
    if len(rows) <= MAX_NAMES:
        axes.set_xticks(range(len(columns)), columns, rotation=90, fontsize='small')
        axes.set_yticks(range(len(rows)), rows, fontsize='small')
    for row, column in np.argwhere(shares >= 0.005) if len(rows) <= MAX_NUMBERS else ():
        axes.text(column, row, f'{shares[row, column]:.2f}', ha='center', va='center', fontsize='x-small',
                  color='white' if shares[row, column] > 0.5 else 'black')
    return figure


def precision_recall_figure(recall: np.ndarray, precision: Mapping[str, np.ndarray], mean: str) -> Figure:
    """Precision over recall for each name, the one called `mean` in black."""
    figure = Figure(figsize=(6.5, 4.5), layout='constrained')
    axes = figure.subplots()
    for name, values in precision.items():
        style = dict(color='black', linewidth=2.5) if name == mean else dict(linewidth=1)
        axes.plot(recall, values, label=name, **style)
    axes.set(xlabel='recall', ylabel='precision', xlim=(0, 1), ylim=(0, 1.02))
    axes.grid(alpha=.3)
    if len(precision) <= MAX_NAMES // 2:
        axes.legend(fontsize='small', loc='center left', bbox_to_anchor=(1, .5))
    return figure


def reliability_figure(confidence: np.ndarray, accuracy: np.ndarray, counts: np.ndarray, error: float) -> Figure:
    """How often predictions of each confidence are right, above how many there are.

    Args:
        confidence, accuracy, counts: (bins,), of bins that hold predictions.
        error: the expected calibration error, for the title.
    """
    figure = Figure(figsize=(5, 5.5), layout='constrained')
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    top.plot([0, 1], [0, 1], color='grey', linestyle='--', label='calibrated')
    top.plot(confidence, accuracy, marker='o', label='model')
    top.set(ylabel='share that is right', xlim=(0, 1), ylim=(0, 1.02), title=f'expected calibration error {error:.3f}')
    top.legend(loc='upper left')
    bottom.bar(confidence, counts, width=0.05)
    bottom.set(xlabel='confidence', ylabel='predictions')
    for axes in (top, bottom):
        axes.grid(alpha=.3)
    return figure


def bars_figure(values: Mapping[str, float], label: str) -> Figure:
    """A horizontal bar for each name, the first on top."""
    figure = Figure(figsize=(6.5, 1.2 + 0.3 * len(values)), layout='constrained')
    axes = figure.subplots()
    bars = axes.barh(list(values), np.nan_to_num(list(values.values())))
    axes.bar_label(bars, fmt='%.3g', padding=2, fontsize='small')
    axes.set(xlabel=label)
    axes.margins(x=.12)
    axes.invert_yaxis()
    return figure


def histogram_figure(edges: np.ndarray, counts: np.ndarray, label: str) -> Figure:
    """A histogram whose counts are drawn on a logarithmic scale; `edges` has one number more than `counts`."""
    figure = Figure(figsize=(6.5, 3.5), layout='constrained')
    axes = figure.subplots()
    axes.stairs(counts, edges, fill=True)
    axes.set(xlabel=label, ylabel='pixels', yscale='log')
    axes.grid(alpha=.3)
    return figure
