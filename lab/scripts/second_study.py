"""Figures of lab/docs/second_study.md from the published tables of its studies.

    python lab/scripts/second_study.py lab/docs/second_study_tables

Reads `parts.csv`, `parts_without_positions.csv`, `rates_with_parts*.csv`, `lengths*.csv`, `budgets*.csv` and
`costs.csv` there, as far as they exist, and the results of the battery; a cell with several seeds counts with their
mean. Prints the best learning rates, what positions inside the attention give, Kendall's tau between the orders of the
cores, and how well the battery predicts the accuracy of an attention that was left out. Draws `battery.png`,
`parts.png`, `orders.png`, `prediction.png` and `costs.png` in the same folder.

`costs.csv` is written by `mmflatten benchmark --operators all --tokens 49 196 784 3136 --embed-dims 64 --heads 2
--batch 8 --train --seconds 1.2 --csv costs.csv` on a quiet machine.
"""
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from mmflatten.text import align
from mmflatten_lab.studies.fingerprint import REFERENCES

# Attentions of the battery as cells of lab/studies/parts.yaml: core, local term, gate.
CELLS = {
    'softmax': ('softmax', 'none', 'none'), 'softmax-local': ('softmax', 'convolution', 'none'),
    'softmax-gate': ('softmax', 'none', 'silu'), 'softmax-local-gate': ('softmax', 'convolution', 'silu'),
    'linear': ('relu', 'none', 'none'), 'elu': ('elu', 'none', 'none'), 'efficient': ('efficient', 'none', 'none'),
    'xca': ('xca', 'none', 'none'), 'cosformer': ('cosformer', 'none', 'none'),
    'focused-no-convolution': ('focused', 'none', 'none'), 'focused': ('focused', 'convolution', 'none'),
    'agent': ('agent', 'convolution', 'none'), 'rala': ('rala', 'convolution', 'silu'),
    'mala': ('mala', 'convolution', 'silu'),
    **{f'{core}-core': (core, 'none', 'none') for core in ('agent', 'inline', 'rala', 'mala', 'polaformer')},
}
POSITIONED = ['cosformer', 'agent', 'rala', 'mala', 'polaformer']  # cores that read positions inside the attention
COSTS = {'linear': 'relu'}  # names in costs.csv that differ from those of cores
SHUFFLES = 2000
IMAGE_SIZE = 28


def table(path: Path) -> pd.DataFrame:
    """Read finished runs without anchors.

    Factors become columns of the last part of their names, as in `patch_size`; `validations.1` keeps its name.
    """
    runs = pd.read_csv(path, na_values='-')  # the levels of anchors, beside which rates would be text
    runs = runs[(runs.state == 'finished') & (runs['mode'] != 'anchor')]
    return runs.rename(columns=lambda name: name.rpartition('.')[2] if name.startswith('levels.') else name)


def tau(first: pd.Series, second: pd.Series) -> str:
    """Kendall's tau of two orders of the same cores with its 95 % interval (Fieller, Hartley and Pearson, 1957)."""
    first, second = first.align(second, join='inner')
    value, number = stats.kendalltau(first, second).statistic, len(first)
    half = stats.norm.ppf(.975) * (.437 / (number - 4)) ** .5
    low, high = np.tanh(np.arctanh(np.clip(value, -.999, .999)) + np.array([-half, half]))
    return f'{value:.2f} [{low:.2f}, {high:.2f}], {number} cores'


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
    """Rank correlation of measured accuracy and its prediction from the battery, with a test by shuffling.

    Leaving one out pulls a prediction from the mean away from the value; shuffled values have the same bias.

    Args:
        values: accuracy of each cell, by the name of its attention in the battery.
        folder: where to draw it.
    """
    abilities = battery()
    names = [name for name in abilities.index if name in values.index]
    features, measured = abilities.loc[names].to_numpy(), values.loc[names].to_numpy()
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
        axes.set(xlabel='predicted from the battery (%)', ylabel='top-1 on Fashion-MNIST (%)')
        figure.savefig(folder / 'prediction.png', dpi=100)
    return (f"Spearman's rho {correlation:.2f}, {len(names)} attentions, each left out; p = {p:.3f} by shuffling "
            f'(mean of shuffled {np.mean(chance):.2f})')


def battery_cells(parts: pd.DataFrame, beside_helpers: bool = False) -> pd.Series:
    """Accuracy of the cells of the battery's attentions.

    Args:
        beside_helpers: subtract the mean of all cores with the same local term and gate, which the battery can tell.
    """
    means = parts.groupby(['core', 'local', 'gate']).value.mean()
    if beside_helpers:
        means -= means.groupby(['local', 'gate']).transform('mean')
    return pd.Series({name: means[cell] for name, cell in CELLS.items() if cell in means.index})


def battery() -> pd.DataFrame:
    """Accuracy of every attention (rows) in every task, mean over seeds."""
    runs = pd.read_csv(REFERENCES)
    return runs.groupby(['attention', 'task']).accuracy.mean().unstack()[runs.task.unique()]


def draw_table(means: pd.DataFrame, title: str, path: Path) -> None:
    """Draw accuracies as colours and numbers, the row with the best mean first."""
    means = means.loc[means.mean(axis=1).sort_values(ascending=False).index]
    figure = Figure(figsize=(3 + .75 * means.shape[1], 1.2 + .24 * len(means)), layout='constrained')
    axes = figure.subplots()
    axes.imshow(means, aspect='auto', cmap='viridis')
    for (row, column), value in np.ndenumerate(means.to_numpy()):
        light = value < (means.min(axis=None) + means.max(axis=None)) / 2
        axes.text(column, row, f'{value:.1f}', ha='center', va='center', size=8, color='w' if light else 'k')
    axes.set_xticks(range(means.shape[1]), [name.replace('-', '\n', 1) for name in means], size=8)
    axes.set_yticks(range(len(means)), means.index, size=8)
    axes.set_title(title, size=10)
    figure.savefig(path, dpi=100)


def by_parts(parts: pd.DataFrame) -> pd.DataFrame:
    """Accuracy of every core (rows) with every set of helpers."""
    words = {'convolution': 'local', 'silu': 'gate', 'none': ''}
    means = parts.pivot_table(index='core', columns=['local', 'gate'], values='value')
    means = means.sort_index(axis=1, key=lambda level: level != 'none')
    return means.set_axis(['-'.join(filter(None, [words[local], words[gate]])) or 'alone' for local, gate in means],
                          axis=1)


def rates(frame: pd.DataFrame) -> str:
    """Table of the accuracy of every core (row) at every rate that it was tried at, with a star at the best.

    Args:
        frame: columns are pairs of a group, in which one rate is best, and a rate.
    """
    rows = [[core, *('' if np.isnan(value) else f'{value:.2f}{" *" if value == row[group].max() else ""}'
                     for (group, _), value in row.items())]
            for core, row in frame.iterrows()]
    return align(rows, ['core', *(f'{group}, {rate:g}' for group, rate in frame)], {0}, markdown=True)


def by_rates(folder: Path) -> pd.DataFrame:
    """Accuracy of every core with every set of helpers at every rate, from the tables of rates_with_parts.yaml."""
    files = {'both': '', 'local': '-local', 'gate': '-gate'}
    return pd.concat({helpers: table(path).pivot_table(index='core', columns='lr', values='value')
                      for helpers, end in files.items()
                      if (path := folder / f'rates_with_parts{end}.csv').exists()}, axis=1)


def by_lengths(runs: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Accuracy of every core (row) over the number of tokens.

    Returns:
        For every number of tokens and rate, on the images of the training file that choose a rate; and for every number
        of tokens at the rate that is best on them, on the test images.
    """
    runs = runs.assign(tokens=((IMAGE_SIZE // runs.patch_size) ** 2).astype(int), validation=runs['validations.1'])
    cells = runs.groupby(['tokens', 'core', 'lr'])[['validation', 'value']].mean()
    best = cells.loc[cells.groupby(['tokens', 'core']).validation.idxmax()]
    return cells.validation.unstack(['tokens', 'lr']).sort_index(axis=1), best.droplevel('lr').value.unstack('tokens')


def costs(path: Path, cores: pd.Index) -> pd.DataFrame:
    """Read milliseconds and MiB of one step of each core at each number of tokens."""
    runs = pd.read_csv(path).replace({'name': COSTS})
    runs = runs[runs.name.isin(cores)].assign(ms=lambda frame: 1e3 * frame.median_s, MiB=lambda frame: frame.peak_mib)
    return runs.pivot_table(index='name', columns='tokens', values=['ms', 'MiB'])[['ms', 'MiB']]


def draw_cores(axes: Axes, frame: pd.DataFrame) -> None:
    """Draw a line for each core (row) over the columns."""
    for number, (core, row) in enumerate(frame.iterrows()):
        axes.plot(frame.columns, row, marker='o', color=f'C{number % 10}', linestyle='-' if number < 10 else '--',
                  label=core)


def draw_costs(frame: pd.DataFrame, path: Path) -> None:
    """Draw time and memory over the number of tokens, relative to softmax."""
    figure = Figure(figsize=(10, 4.5), layout='constrained')
    for axes, unit in zip(figure.subplots(1, 2), ('ms', 'MiB')):
        draw_cores(axes, frame[unit] / frame[unit].loc['softmax'])
        axes.set(xscale='log', yscale='log' if unit == 'ms' else 'linear', xlabel='tokens',
                 ylabel=f'{"time" if unit == "ms" else "peak memory"} of a training step / that of softmax')
        axes.set_xticks(frame[unit].columns, frame[unit].columns)
        axes.minorticks_off()
        axes.grid(color='0.9')
    axes.legend(fontsize=7, loc='upper left', bbox_to_anchor=(1, 1))
    figure.savefig(path, dpi=100)


def spreads(parts: pd.DataFrame) -> str:
    """Standard deviation of the cores with every set of helpers, and over seeds, pooled over cells (95 % intervals)."""
    def text(variance: float, freedom: int) -> str:
        low, high = (variance * freedom / stats.chi2.ppf([.975, .025], freedom)) ** .5
        return f'{variance ** .5:.2f} [{low:.2f}, {high:.2f}]'

    helpers = by_parts(parts)
    rows = [[name, f'{column.min():.2f} to {column.max():.2f}', text(column.var(), len(column) - 1)]
            for name, column in helpers.items()]
    cells = parts.groupby(['core', 'local', 'gate']).value
    freedom = int((cells.count() - 1).sum())
    if freedom:
        rows.append(['over seeds', '', text((cells.var() * (cells.count() - 1)).sum() / freedom, freedom)])
    return align(rows, ['helpers', 'cores', 'standard deviation'], {0, 1}, markdown=True)


def cores_table(frame: pd.DataFrame, style: str) -> str:
    """Table of numbers for each core (row), in a style as of `format`."""
    rows = [[core, *(format(value, style) for value in row)] for core, row in frame.iterrows()]
    return align(rows, ['core', *map(str, frame)], {0}, markdown=True)


def draw_orders(groups: Mapping[str, Mapping[str, pd.Series]], path: Path) -> None:
    """Draw the accuracy of each core over budgets and over numbers of tokens."""
    figure = Figure(figsize=(5 * len(groups), 4.5), layout='constrained')
    for axes, (title, columns) in zip(figure.subplots(1, len(groups), squeeze=False)[0], groups.items()):
        draw_cores(axes, pd.DataFrame(columns))
        axes.set(xlabel=title, ylabel='top-1 on Fashion-MNIST (%)')
        axes.grid(axis='y', color='0.9')
        axes.legend(fontsize=7, ncols=2)
    figure.savefig(path, dpi=100)


def main(folder: Path) -> None:
    draw_table(battery(), 'accuracy in the battery (%)', folder / 'battery.png')
    groups = {}
    if (folder / 'rates_with_parts.csv').exists():
        print('Which learning rate is best (* in each cell)?', rates(by_rates(folder)), sep='\n', end='\n\n')
    if (folder / 'parts.csv').exists():
        parts = table(folder / 'parts.csv').query("positions == 'table'")
        helpers = by_parts(parts)
        draw_table(helpers, 'top-1 on Fashion-MNIST (%)', folder / 'parts.png')
        print('How far are the cores apart?', spreads(parts), sep='\n', end='\n\n')
        unpositioned = helpers.drop(POSITIONED, errors='ignore')
        if (folder / 'parts_without_positions.csv').exists():
            without = by_parts(table(folder / 'parts_without_positions.csv'))
            unpositioned = pd.concat([unpositioned, without])
            gains = helpers.loc[without.index] - without
            gains.loc['mean'] = gains.mean()
            print('What do their own positions give?', cores_table(gains, '.2f'), sep='\n', end='\n\n')
        print('Does the order stay with other helpers?', orders(helpers), 'And of cores without own positions?',
              orders(unpositioned), sep='\n', end='\n\n')
        print('Does the battery predict the accuracy?', prediction(battery_cells(parts), folder),
              'And its difference from the mean of all cores with the same helpers?',
              prediction(battery_cells(parts, beside_helpers=True)), 'And that of cores without helpers?',
              prediction(battery_cells(parts.query("local == 'none' and gate == 'none'"))), sep='\n', end='\n\n')
        if all((folder / f'budgets{size}.csv').exists() for size in ('-half', '')):
            half, eight = (table(folder / f'budgets{size}.csv').groupby('core').value.mean() for size in ('-half', ''))
            groups['epochs, with a local term'] = {'0.5': half, '2': helpers['local'], '8': eight}
        if (folder / 'costs.csv').exists():
            frame = costs(folder / 'costs.csv', helpers.index)
            draw_costs(frame, folder / 'costs.png')
            frame.columns = [f'{unit}, {tokens}' for unit, tokens in frame]
            print('What does a training step of one attention cost?', cores_table(frame, '.3g'), sep='\n', end='\n\n')
    for end, local, beside in (('', 'none', 'without helpers'), ('-local', 'convolution', 'with a local term')):
        if not (folder / f'lengths{end}.csv').exists():
            continue
        tried, lengths = by_lengths(table(folder / f'lengths{end}.csv'))
        print(f'Which learning rate is best for each number of tokens, {beside}?', rates(tried), 'Top-1 with it:',
              cores_table(lengths, '.2f'), sep='\n', end='\n\n')
        groups[f'tokens, {beside}'] = {str(tokens): column for tokens, column in lengths.items()}
        for tokens, column in lengths.items():
            cells = battery_cells(column.reset_index(name='value').assign(local=local, gate='none'))
            if len(cells) == len(lengths):
                print(f'Does the battery predict it at {tokens} tokens?', prediction(cells), sep='\n', end='\n\n')
    for title, columns in groups.items():
        print(f'Does the order stay over {title}?', orders(columns), sep='\n', end='\n\n')
    if groups:
        draw_orders(groups, folder / 'orders.png')


if __name__ == '__main__':
    main(Path(sys.argv[1]))
