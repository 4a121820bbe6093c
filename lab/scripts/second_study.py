"""Figures of lab/docs/second_study.md from the published tables of its studies.

    python lab/scripts/second_study.py lab/docs/second_study_tables

Reads the tables there, as far as they exist, and the results of the benchmark suite; a cell with several seeds counts
with their mean. Prints what positions inside the attention give, Kendall's tau between the orders of the operators, and
how well the benchmark suite predicts the accuracy of an attention that was left out. Draws `tasks.png`, `parts.png`,
`orders.png`, `prediction.png` and `costs.png` in the same folder.

`costs.csv` is written by `mmflatten benchmark --operators all --tokens 49 196 784 3136 --embed-dims 64 --heads 2
--batch 8 --train --seconds 1.2 --csv costs.csv` on a quiet machine.
"""
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats
from second_study_drawings import draw_costs, draw_orders, draw_table

from mmflatten.text import align
from mmflatten_lab.studies.controls import CONTROLS
from mmflatten_lab.studies.fingerprint import REFERENCES
from mmflatten_lab.studies.runs import GRID

# Attentions of the benchmark suite as cells of lab/studies/parts.yaml: operator, local term, gate.
CELLS = {
    'softmax': ('softmax', 'none', 'none'), 'softmax-local': ('softmax', 'convolution', 'none'),
    'softmax-gate': ('softmax', 'none', 'silu'), 'softmax-local-gate': ('softmax', 'convolution', 'silu'),
    'linear': ('relu', 'none', 'none'), 'elu': ('elu', 'none', 'none'), 'efficient': ('efficient', 'none', 'none'),
    'xca': ('xca', 'none', 'none'), 'cosformer': ('cosformer', 'none', 'none'),
    'focused-no-convolution': ('focused', 'none', 'none'), 'focused': ('focused', 'convolution', 'none'),
    'agent': ('agent', 'convolution', 'none'), 'rala': ('rala', 'convolution', 'silu'),
    'mala': ('mala', 'convolution', 'silu'),
    **{f'{name}-plain': (name, 'none', 'none') for name in ('agent', 'inline', 'rala', 'mala', 'polaformer')},
}
POSITIONED = ['cosformer', 'agent', 'rala', 'mala', 'polaformer']  # operators that read positions inside the attention
COSTS = {'linear': 'relu'}  # names in costs.csv that differ from those of operators
SHUFFLES = 2000
IMAGE_SIZE = 28


def table(path: Path) -> pd.DataFrame:
    """Read finished runs without baselines and controls.

    Factors become columns of the last part of their names, as in `patch_size`; `validations.1` keeps its name.
    """
    runs = pd.read_csv(path, na_values='-')  # the levels of baselines, beside which rates would be text
    runs = runs[(runs.state == 'finished') & (runs['mode'] == GRID) & ~runs['levels.operator'].isin(CONTROLS)]
    return runs.rename(columns=lambda name: name.rpartition('.')[2] if name.startswith('levels.') else name)


def tau(first: pd.Series, second: pd.Series) -> str:
    """Kendall's tau of two orders of the same operators with its 95 % interval (Fieller, Hartley and Pearson, 1957)."""
    first, second = first.align(second, join='inner')
    value, number = stats.kendalltau(first, second).statistic, len(first)
    half = stats.norm.ppf(.975) * (.437 / (number - 4)) ** .5
    low, high = np.tanh(np.arctanh(np.clip(value, -.999, .999)) + np.array([-half, half]))
    return f'{value:.2f} [{low:.2f}, {high:.2f}], {number} operators'


def orders(columns: Mapping[str, pd.Series]) -> str:
    """Tau of every order with the next one, and of the first with the last."""
    names = list(columns)
    pairs = [*zip(names, names[1:])] + ([(names[0], names[-1])] if len(names) > 2 else [])
    return align([[f'{a} and {b}', tau(columns[a], columns[b])] for a, b in pairs], ['orders', "Kendall's tau"], {0, 1},
                 markdown=True)


def predicted(features: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Predict each value from all others by ridge regression on standardised features, in closed form.

    The penalty is the number of features, fixed before any result was seen.

    Args:
        values: (..., number of attentions).
    """
    inputs = (features - features.mean(0)) / features.std(0)
    penalty = features.shape[1] * np.eye(features.shape[1])
    hat = 1 / len(inputs) + inputs @ np.linalg.solve(inputs.T @ inputs + penalty, inputs.T)
    return values - (values - values @ hat) / (1 - np.diag(hat))


def prediction(values: pd.Series, folder: Path | None = None) -> str:
    """Rank correlation of measured accuracy and its prediction from the benchmark suite, with a test by shuffling.

    Leaving one out pulls a prediction from the mean away from the value; shuffled values have the same bias.

    Args:
        values: accuracy of each cell, by the name of its attention in the benchmark suite.
        folder: where to draw it.
    """
    tasks = suite()
    names = [name for name in tasks.index if name in values.index]
    features, measured = tasks.loc[names].to_numpy(), values.loc[names].to_numpy()
    guess = predicted(features, measured)
    correlation = stats.spearmanr(guess, measured).statistic
    generator = np.random.default_rng(0)
    shuffled = generator.permuted(np.tile(measured, (SHUFFLES, 1)), axis=1)
    chance = [stats.spearmanr(*pair).statistic for pair in zip(predicted(features, shuffled), shuffled)]
    p = (1 + sum(value >= correlation for value in chance)) / (1 + SHUFFLES)
    if folder:
        figure = Figure(figsize=(6, 4.5), layout='constrained')
        axes = figure.subplots()
        axes.scatter(guess, measured)
        axes.margins(x=.2)  # names stand to the right of their points
        for name, *place in zip(names, guess, measured):
            axes.annotate(name, place, xytext=(4, 2), textcoords='offset points', size=7)
        axes.set(xlabel='predicted from the benchmark suite (%)', ylabel='top-1 on Fashion-MNIST (%)')
        figure.savefig(folder / 'prediction.png', dpi=100)
    return (f"Spearman's rho {correlation:.2f}, {len(names)} attentions, each left out; p = {p:.3f} by shuffling "
            f'(mean of shuffled {np.mean(chance):.2f})')


def suite_cells(parts: pd.DataFrame, beside_others: bool = False) -> pd.Series:
    """Accuracy of the cells of the benchmark suite's attentions.

    Args:
        beside_others: subtract the mean of all operators with the same local term and gate, which the suite can tell.
    """
    means = parts.groupby(['operator', 'local', 'gate']).value.mean()
    if beside_others:
        means -= means.groupby(['local', 'gate']).transform('mean')
    return pd.Series({name: means[cell] for name, cell in CELLS.items() if cell in means.index})


def suite() -> pd.DataFrame:
    """Accuracy of every attention (rows) in every task, mean over seeds."""
    runs = pd.read_csv(REFERENCES)
    return runs.groupby(['attention', 'task']).accuracy.mean().unstack()[runs.task.unique()]


def by_parts(parts: pd.DataFrame) -> pd.DataFrame:
    """Accuracy of every operator (rows) with every set of parts."""
    means = parts.pivot_table(index='operator', columns=['local', 'gate'], values='value')
    names = {('none', 'none'): 'plain', ('none', 'silu'): 'gate', ('convolution', 'none'): 'local term',
             ('convolution', 'silu'): 'both'}
    return means[list(names)].set_axis(list(names.values()), axis=1)


def by_lengths(runs: pd.DataFrame) -> pd.DataFrame:
    """Accuracy of every operator (row) over the number of tokens, at the rate that is best on the validation images."""
    runs = runs.assign(tokens=((IMAGE_SIZE // runs.patch_size) ** 2).astype(int), validation=runs['validations.1'])
    cells = runs.groupby(['tokens', 'operator', 'lr'])[['validation', 'value']].mean()
    best = cells.loc[cells.groupby(['tokens', 'operator']).validation.idxmax()]
    return best.droplevel('lr').value.unstack('tokens')


def costs(path: Path, operators: pd.Index) -> pd.DataFrame:
    """Read milliseconds and MiB of one step of each operator at each number of tokens."""
    runs = pd.read_csv(path).replace({'name': COSTS})
    runs = runs[runs.name.isin(operators)]
    runs = runs.assign(ms=1e3 * runs.median_s, MiB=runs.peak_mib)
    return runs.pivot_table(index='name', columns='tokens', values=['ms', 'MiB'])[['ms', 'MiB']]


def spreads(parts: pd.DataFrame) -> str:
    """Standard deviation of the operators with every set of parts, and over seeds, pooled (95 % intervals)."""
    def text(variance: float, freedom: int) -> str:
        low, high = (variance * freedom / stats.chi2.ppf([.975, .025], freedom)) ** .5
        return f'{variance ** .5:.2f} [{low:.2f}, {high:.2f}]'

    parts_of = by_parts(parts)
    rows = [[name, f'{column.min():.2f} to {column.max():.2f}', text(column.var(), len(column) - 1)]
            for name, column in parts_of.items()]
    cells = parts.groupby(['operator', 'local', 'gate']).value
    freedom = int((cells.count() - 1).sum())
    if freedom:
        rows.append(['over seeds', '', text((cells.var() * (cells.count() - 1)).sum() / freedom, freedom)])
    return align(rows, ['parts', 'operators', 'standard deviation'], {0, 1}, markdown=True)


def operators_table(frame: pd.DataFrame, style: str) -> str:
    """Table of numbers for each operator (row), in a style as of `format`."""
    rows = [[operator, *(format(value, style) for value in row)] for operator, row in frame.iterrows()]
    return align(rows, ['operator', *map(str, frame)], {0}, markdown=True)


def main(folder: Path) -> None:
    draw_table(suite(), 'accuracy in the benchmark suite (%)', folder / 'tasks.png')
    groups = {}
    if (folder / 'parts.csv').exists():
        parts = table(folder / 'parts.csv').query("positions == 'table'")
        parts_of = by_parts(parts)
        draw_table(parts_of, 'top-1 on Fashion-MNIST (%)', folder / 'parts.png')
        print('How far are the operators apart?', spreads(parts), sep='\n', end='\n\n')
        unpositioned = parts_of.drop(POSITIONED, errors='ignore')
        if (folder / 'parts_without_positions.csv').exists():
            without = by_parts(table(folder / 'parts_without_positions.csv'))
            unpositioned = pd.concat([unpositioned, without])
            gains = parts_of.loc[without.index] - without
            gains.loc['mean'] = gains.mean()
            print('What do their own positions give?', operators_table(gains, '.2f'), sep='\n', end='\n\n')
        print('Does the order stay with other parts?', orders(parts_of), 'And of operators without own positions?',
              orders(unpositioned), sep='\n', end='\n\n')
        print('Does the benchmark suite predict the accuracy?', prediction(suite_cells(parts), folder),
              'And its difference from the mean of all operators with the same local term and gate?',
              prediction(suite_cells(parts, beside_others=True)), 'And that of operators without both?',
              prediction(suite_cells(parts.query("local == 'none' and gate == 'none'"))), sep='\n', end='\n\n')
        if all((folder / f'budgets{size}.csv').exists() for size in ('-half', '')):
            half, eight = (table(folder / f'budgets{size}.csv').groupby('operator').value.mean()
                           for size in ('-half', ''))
            groups['epochs, with a local term'] = {'0.5': half, '2': parts_of['local term'], '8': eight}
        if (folder / 'costs.csv').exists():
            frame = costs(folder / 'costs.csv', parts_of.index)
            draw_costs(frame, folder / 'costs.png')
            frame.columns = [f'{unit}, {tokens}' for unit, tokens in frame]
            print('What does a training step cost?', operators_table(frame, '.3g'), sep='\n', end='\n\n')
    for end, local, beside in (('', 'none', 'without both'), ('-local', 'convolution', 'with a local term')):
        if not (folder / f'lengths{end}.csv').exists():
            continue
        lengths = by_lengths(table(folder / f'lengths{end}.csv'))
        print(f'Top-1 for each number of tokens, {beside}:', operators_table(lengths, '.2f'), sep='\n', end='\n\n')
        groups[f'tokens, {beside}'] = {str(tokens): column for tokens, column in lengths.items()}
        for tokens, column in lengths.items():
            cells = suite_cells(column.reset_index(name='value').assign(local=local, gate='none'))
            if len(cells) == len(lengths):
                print(f'Does the suite predict it at {tokens} tokens?', prediction(cells), sep='\n', end='\n\n')
    for title, columns in groups.items():
        print(f'Does the order stay over {title}?', orders(columns), sep='\n', end='\n\n')
    if groups:
        draw_orders(groups, folder / 'orders.png')


if __name__ == '__main__':
    main(Path(sys.argv[1]))
