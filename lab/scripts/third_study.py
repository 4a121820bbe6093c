"""Tests and picture of lab/docs/third_study.md.

    python lab/scripts/third_study.py larger.csv larger.png

Prints, for each task or backbone of a table, how each level differs from *none* and from softmax in
the deciding metric: the difference, its 95 % interval, and the p-value of Welch's test with Holm's
correction for all levels.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests

from mmflatten.results.drawing import save_png
from mmflatten.results.figures import Lines

REFERENCES = ('none', 'softmax')


class Metric(NamedTuple):
    """Metric that a study measures at several sizes of the image."""

    template: str  # name of the metric of a size
    sizes: tuple[int, ...]
    size_label: str
    label: str

    @property
    def columns(self) -> list[str]:
        return [f'metrics.{self.template.format(size)}' for size in self.sizes]


METRICS = (
    Metric(
        template='cells/accuracy_{}',
        sizes=(49, 196, 784, 3136),
        size_label='tokens (196 in training)',
        label='% right',
    ),
    Metric(
        template='{}x/coco/segm_mAP',
        sizes=(1, 4, 16),
        size_label='times the area of the training',
        label='mask AP',
    ),
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('table', type=Path, metavar='TABLE.csv', help='table of a study report')
    parser.add_argument(
        'picture',
        nargs='?',
        metavar='PICTURE.png',
        help='picture to write of the metric over the size (default: none)',
    )
    args = parser.parse_args(arguments)
    runs = pd.read_csv(args.table).rename(columns={'levels.attention': 'attention'})
    metric = find_metric(runs)
    panels = {}
    for title, rows in combinations(runs[runs.state == 'finished']):
        levels = rows.groupby('attention', sort=False)
        values = {level: part.value for level, part in levels}
        for reference in REFERENCES:
            print(f'\n{title}, against {reference}\n', compare(values, reference).round(4))
        panels[title] = panel(levels[metric.columns].mean(), metric)
    if args.picture:
        save_png(args.picture, panels)


def find_metric(runs: pd.DataFrame) -> Metric:
    """Return the metric that a table has.

    Raises:
        ValueError: the table has none of `METRICS`.
    """
    for metric in METRICS:
        if metric.columns[0] in runs:
            return metric
    known = ', '.join(metric.columns[0] for metric in METRICS)
    raise ValueError(f'TABLE.csv: expected one of the columns {known}, got {", ".join(runs)}.')


def combinations(runs: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Split runs by the levels of all factors but the attention. Cells with one run are left out,
    because they have no variance.

    Raises:
        ValueError: no cell has several runs.
    """
    factors = [column for column in runs if column.startswith('levels.')]
    others = [factor for factor in factors if runs[factor].nunique() > 1]
    # A table with one factor is one group, of the same mode.
    others = others or ['mode']
    repeated = runs.groupby(['attention', *others], sort=False).filter(lambda part: len(part) > 1)
    if repeated.empty:
        raise ValueError('TABLE.csv: expected several seeds of each level, got one.')
    titles = repeated[others].astype(str).agg(', '.join, axis=1)
    return list(repeated.groupby(titles, sort=False))


def compare(values: dict[str, pd.Series], reference: str) -> pd.DataFrame:
    """Welch's test of every level against one of them."""
    names = [name for name in values if name != reference]
    differences = []
    intervals = []
    p_values = []
    for name in names:
        test = stats.ttest_ind(values[name], values[reference], equal_var=False)
        differences.append(values[name].mean() - values[reference].mean())
        intervals.append(test.confidence_interval())
        p_values.append(test.pvalue)
    table = pd.DataFrame(intervals, index=names)
    table.insert(0, 'difference', differences)
    _, table['p_holm'], _, _ = multipletests(p_values, method='holm')
    return table


def panel(means: pd.DataFrame, metric: Metric) -> Lines:
    """Draw the mean of each level over the size of the image."""
    places = range(len(metric.sizes))
    sizes = ', '.join(map(str, metric.sizes))
    return Lines(
        {level: (places, row) for level, row in means.iterrows()},
        f'{metric.size_label}: {sizes}',
        metric.label,
        mean='none',
    )


if __name__ == '__main__':
    main()
