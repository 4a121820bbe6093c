"""Correlations of lab/docs/second_study.md, from the published tables: python lab/scripts/second_study.py FOLDER.

Prints Kendall's tau between the orders of the operators, and how well the benchmark suite predicts the accuracy of an
attention that was left out, and draws `parts.png` in the folder. A cell with several seeds counts with their mean.
"""
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from mmflatten_lab.studies.controls import CONTROLS
from mmflatten_lab.studies.fingerprint import REFERENCES
from mmflatten_lab.studies.runs import GRID

PARTS = {('none', 'none'): 'plain', ('none', 'silu'): 'gate', ('convolution', 'none'): 'local term',
         ('convolution', 'silu'): 'both'}
CELLS = {  # attentions of the suite as cells of lab/studies/parts.yaml
    'softmax': ('softmax', 'plain'), 'softmax-local': ('softmax', 'local term'), 'softmax-gate': ('softmax', 'gate'),
    'softmax-local-gate': ('softmax', 'both'), 'linear': ('relu', 'plain'), 'focused': ('focused', 'local term'),
    'agent': ('agent', 'local term'), 'rala': ('rala', 'both'), 'mala': ('mala', 'both'),
    'focused-no-convolution': ('focused', 'plain'),
    **{name: (name, 'plain') for name in ('elu', 'efficient', 'xca', 'cosformer')},
    **{f'{name}-plain': (name, 'plain') for name in ('agent', 'inline', 'rala', 'mala', 'polaformer')}}
POSITIONED = ['cosformer', 'agent', 'rala', 'mala', 'polaformer']  # operators that read positions in the attention
SHUFFLES = 2000


def by_parts(path: Path) -> pd.DataFrame:
    """Accuracy of every operator (row) with every set of parts, without baselines and controls."""
    runs = pd.read_csv(path)
    runs = runs[(runs['mode'] == GRID) & (runs.state == 'finished') & ~runs['levels.operator'].isin(CONTROLS)]
    means = runs.pivot_table(index='levels.operator', columns=['levels.local', 'levels.gate'], values='value')
    return means[list(PARTS)].set_axis(list(PARTS.values()), axis=1)


def tau(first: pd.Series, second: pd.Series) -> str:
    """Kendall's tau of two orders of the operators with its 95 % interval (Fieller, Hartley and Pearson, 1957)."""
    value, half = stats.kendalltau(first, second).statistic, stats.norm.ppf(.975) * (.437 / (len(first) - 4)) ** .5
    low, high = np.tanh(np.arctanh(value) + np.array([-half, half]))
    return f'{value:.2f} [{low:.2f}, {high:.2f}], {len(first)} operators'


def predicted(features: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Predict each value from all others by ridge regression; the penalty is the number of standardised features."""
    inputs = (features - features.mean(0)) / features.std(0)
    penalty = features.shape[1] * np.eye(features.shape[1])
    hat = 1 / len(inputs) + inputs @ np.linalg.solve(inputs.T @ inputs + penalty, inputs.T)
    return values - (values - values @ hat) / (1 - np.diag(hat))


def prediction(means: pd.DataFrame) -> str:
    """Rank correlation of accuracies with their predictions from the suite, with a test by shuffling."""
    runs = pd.read_csv(REFERENCES)
    tasks = runs.groupby(['attention', 'task']).accuracy.mean().unstack()[runs.task.unique()]
    names = [name for name in tasks.index if name in CELLS and CELLS[name][1] in means]
    features, measured = tasks.loc[names].to_numpy(), np.array([means.loc[CELLS[name]] for name in names])
    shuffled = np.random.default_rng(0).permuted(np.tile(measured, (SHUFFLES, 1)), axis=1)
    rho, *chance = (stats.spearmanr(predicted(features, values), values).statistic for values in (measured, *shuffled))
    p = (1 + sum(value >= rho for value in chance)) / (1 + SHUFFLES)
    return f"Spearman's rho {rho:.2f}, {len(names)} attentions, each left out; p = {p:.3f} by shuffling"


def main(folder: Path) -> None:
    means, without = (by_parts(folder / f'{name}.csv') for name in ('parts', 'parts_without_positions'))
    for frame in (means, pd.concat([means.drop(POSITIONED), without])):
        for first, second in zip(PARTS.values(), [*list(PARTS.values())[1:], 'plain']):
            print(f'{first} and {second}: {tau(frame[first], frame[second])}')
    for frame in (means, means - means.mean(), means[['plain']]):  # all, beside the same parts, without parts
        print(prediction(frame))
    ordered = means.loc[means.mean(axis=1).sort_values(ascending=False).index]
    figure = Figure(figsize=(6, 4.1), layout='constrained')
    axes = figure.subplots()
    axes.imshow(ordered, aspect='auto', cmap='viridis')
    for (row, column), value in np.ndenumerate(ordered.to_numpy()):
        axes.text(column, row, f'{value:.1f}', ha='center', va='center', color='w' if value < 85 else 'k')
    axes.set(title='top-1 on Fashion-MNIST (%)')
    axes.set_xticks(range(len(PARTS)), ordered.columns)
    axes.set_yticks(range(len(ordered)), ordered.index)
    figure.savefig(folder / 'parts.png', dpi=100)


if __name__ == '__main__':
    main(Path(sys.argv[1]))
