"""Tests and picture of lab/docs/third_study.md: python lab/scripts/third_study.py larger.csv
[larger.png].

Prints, for each task or backbone of a table, how each level differs from *none* and from softmax in
the deciding
metric: the difference, its own 95 % interval, and the p-value of Welch's test with Holm's
    correction for all levels.
"""

import sys

import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests

from mmflatten.results.drawing import save_png
from mmflatten.results.figures import Lines

# Metric -> sizes, and the labels of both axes.
KINDS = {
    'cells/accuracy_{}': ((49, 196, 784, 3136), 'tokens (196 in training)', '% right'),
    '{}x/coco/segm_mAP': ((1, 4, 16), 'times the area of the training', 'mask AP'),
}


def compare(values: dict[str, pd.Series], reference: str) -> pd.DataFrame:
    """Welch's test of every level against one of them."""
    names = [name for name in values if name != reference]
    tests = [stats.ttest_ind(values[name], values[reference], equal_var=False) for name in names]
    table = pd.DataFrame([test.confidence_interval() for test in tests], index=names).assign(
        p_holm=multipletests([test.pvalue for test in tests], method='holm')[1]
    )
    table.insert(
        0, 'difference', [values[name].mean() - values[reference].mean() for name in names]
    )
    return table


def main(table: str, picture: str | None = None) -> None:
    runs = pd.read_csv(table)
    runs = runs[runs.state == 'finished'].rename(columns={'levels.attention': 'attention'})
    name, (sizes, *labels) = next(
        item for item in KINDS.items() if f'metrics.{item[0].format(item[1][0][0])}' in runs
    )
    others = [
        column for column in runs if column.startswith('levels.') and runs[column].nunique() > 1
    ] or ['mode']
    runs = runs.groupby(['attention', *others], sort=False).filter(lambda part: len(part) > 1)
    panels = {}
    for title, rows in runs.groupby(runs[others].astype(str).agg(', '.join, axis=1), sort=False):
        levels = dict(list(rows.groupby('attention', sort=False)))
        for reference in ('none', 'softmax'):
            print(
                f'\n{title}, against {reference}\n',
                compare({level: part.value for level, part in levels.items()}, reference).round(4),
            )
        means = rows.groupby('attention', sort=False)[
            [f'metrics.{name.format(size)}' for size in sizes]
        ].mean()
        panels[title] = Lines(
            {level: (range(len(sizes)), row) for level, row in means.iterrows()},
            f'{labels[0]}: {", ".join(map(str, sizes))}',
            labels[1],
            mean='none',
        )
    if picture:
        save_png(picture, panels)


if __name__ == '__main__':
    main(*sys.argv[1:])
