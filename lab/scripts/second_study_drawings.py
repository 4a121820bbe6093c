"""Drawings of second_study.py."""
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure


def draw_table(means: pd.DataFrame, title: str, path: Path) -> None:
    """Draw accuracies as colours and numbers, the row with the best mean first."""
    means = means.loc[means.mean(axis=1).sort_values(ascending=False).index]
    figure = Figure(figsize=(3 + .75 * means.shape[1], 1.2 + .24 * len(means)), layout='constrained')
    axes = figure.subplots()
    axes.imshow(means, aspect='auto', cmap='viridis')
    for (row, column), value in np.ndenumerate(means.to_numpy()):
        light = value < (means.min(axis=None) + means.max(axis=None)) / 2
        axes.text(column, row, f'{value:.1f}', ha='center', va='center', size=8, color='w' if light else 'k')
    labels = ['local term\nand gate' if name == 'both' else name for name in means]
    axes.set_xticks(range(means.shape[1]), labels, size=8)
    axes.set_yticks(range(len(means)), means.index, size=8)
    axes.set_title(title, size=10)
    figure.savefig(path, dpi=100)


def draw_operators(axes: Axes, frame: pd.DataFrame) -> None:
    """Draw a line for each operator (row) over the columns."""
    for number, (operator, row) in enumerate(frame.iterrows()):
        axes.plot(frame.columns, row, marker='o', color=f'C{number % 10}', linestyle='-' if number < 10 else '--',
                  label=operator)


def draw_costs(frame: pd.DataFrame, path: Path) -> None:
    """Draw time and memory over the number of tokens, relative to softmax."""
    figure = Figure(figsize=(10, 4.5), layout='constrained')
    for axes, unit in zip(figure.subplots(1, 2), ('ms', 'MiB')):
        draw_operators(axes, frame[unit] / frame[unit].loc['softmax'])
        axes.set(xscale='log', yscale='log' if unit == 'ms' else 'linear', xlabel='tokens',
                 ylabel=f'{"time" if unit == "ms" else "peak memory"} of a training step / that of softmax')
        axes.set_xticks(frame[unit].columns, frame[unit].columns)
        axes.minorticks_off()
        axes.grid(color='0.9')
    axes.legend(fontsize=7, loc='upper left', bbox_to_anchor=(1, 1))
    figure.savefig(path, dpi=100)


def draw_orders(groups: Mapping[str, Mapping[str, pd.Series]], path: Path) -> None:
    """Draw the accuracy of each operator over budgets and over numbers of tokens."""
    figure = Figure(figsize=(5 * len(groups), 4.5), layout='constrained')
    for axes, (title, columns) in zip(figure.subplots(1, len(groups), squeeze=False)[0], groups.items()):
        draw_operators(axes, pd.DataFrame(columns))
        axes.set(xlabel=title, ylabel='top-1 on Fashion-MNIST (%)')
        axes.grid(axis='y', color='0.9')
        axes.legend(fontsize=7, ncols=2)
    figure.savefig(path, dpi=100)
