"""Correlations of lab/docs/second_study.md, from the published tables.

    python lab/scripts/second_study.py lab/docs/second_study_tables

Prints Kendall's tau between the orders of the operators, and draws `parts.png` in the folder. A
cell with several seeds counts with their mean.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from mmflatten_lab.studies.controls import CONTROLS
from mmflatten_lab.studies.runs import GRID

# (local term, gate) -> name
PARTS = {
    ('none', 'none'): 'plain',
    ('none', 'silu'): 'gate',
    ('convolution', 'none'): 'local term',
    ('convolution', 'silu'): 'both',
}
# operators that read positions in the attention
POSITIONED = ['cosformer', 'agent', 'rala', 'mala', 'polaformer']


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('folder', type=Path, metavar='FOLDER', help='tables of a study report')
    folder = parser.parse_args(arguments).folder
    means = by_parts(folder / 'parts.csv')
    without = by_parts(folder / 'parts_without_positions.csv')
    # Compare each set of parts with the next one, and the last with the first.
    parts = list(PARTS.values())
    for frame in (means, pd.concat([means.drop(POSITIONED), without])):
        for first, second in zip(parts, parts[1:] + parts[:1]):
            print(f'{first} and {second}: {tau(frame[first], frame[second])}')
    draw(means).savefig(folder / 'parts.png', dpi=100)


def by_parts(path: Path) -> pd.DataFrame:
    """Accuracy of every operator (row) with every set of parts, without baselines and controls."""
    runs = pd.read_csv(path)
    finished = (runs['mode'] == GRID) & (runs.state == 'finished')
    controls = runs['levels.operator'].isin(CONTROLS)
    means = runs[finished & ~controls].pivot_table(
        index='levels.operator', columns=['levels.local', 'levels.gate'], values='value'
    )
    return means[list(PARTS)].set_axis(list(PARTS.values()), axis=1)


def tau(first: pd.Series, second: pd.Series) -> str:
    """Kendall's tau of two orders of the operators with its 95 % interval (Fieller, Hartley and
    Pearson, 1957).
    """
    value = stats.kendalltau(first, second).statistic
    half = stats.norm.ppf(0.975) * (0.437 / (len(first) - 4)) ** 0.5
    low, high = np.tanh(np.arctanh(value) + np.array([-half, half]))
    return f'{value:.2f} [{low:.2f}, {high:.2f}], {len(first)} operators'


def draw(means: pd.DataFrame) -> Figure:
    """Draw the accuracies as a table of colours, the operator with the best mean on top."""
    ordered = means.loc[means.mean(axis=1).sort_values(ascending=False).index]
    figure = Figure(figsize=(6, 4.1), layout='constrained')
    axes = figure.subplots()
    axes.imshow(ordered, aspect='auto', cmap='viridis')
    for (row, column), value in np.ndenumerate(ordered.to_numpy()):
        axes.text(
            column,
            row,
            f'{value:.1f}',
            ha='center',
            va='center',
            # white on the dark colours
            color='w' if value < 85 else 'k',
        )
    axes.set(title='top-1 on Fashion-MNIST (%)')
    axes.set_xticks(range(len(PARTS)), ordered.columns)
    axes.set_yticks(range(len(ordered)), ordered.index)
    return figure


if __name__ == '__main__':
    main()
