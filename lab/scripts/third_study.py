"""Tests and picture of lab/docs/third_study.md: python lab/scripts/third_study.py larger.csv [larger.png].

Prints, for each task, how each level differs from *none* and softmax in the deciding metric: the difference, its 95 %
interval and the p-value of Welch's test, with Holm's correction for the comparisons of a table.
"""
import sys

import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests

from mmflatten.results.drawing import save_png
from mmflatten.results.figures import Lines

SIZES = {'cells/accuracy_{}': (49, 196, 784, 3136), '{}x/coco/segm_mAP': (1, 4, 16)}  # metric -> tokens, or areas


def compare(values: dict[str, pd.Series], reference: str) -> pd.DataFrame:
    """Welch's test of every level against one of them."""
    names = [name for name in values if name != reference]
    tests = [stats.ttest_ind(values[name], values[reference], equal_var=False) for name in names]
    table = pd.DataFrame([test.confidence_interval() for test in tests], index=names).assign(
        p=multipletests([test.pvalue for test in tests], method='holm')[1])
    table.insert(0, 'difference', [values[name].mean() - values[reference].mean() for name in names])
    return table


def main(table: str, picture: str | None = None) -> None:
    runs = pd.read_csv(table)
    runs = runs[runs.state == 'finished']
    tasks = runs.get('levels.task', pd.Series('detector', runs.index))
    name, sizes = next((name, sizes) for name, sizes in SIZES.items() if f'metrics.{name.format(sizes[0])}' in runs)
    columns = [f'metrics.{name.format(size)}' for size in sizes]
    panels = {}
    for task, rows in runs.groupby(tasks, sort=False):
        levels = dict(list(rows.groupby('levels.attention', sort=False)))
        for reference in ('none', 'softmax'):
            print(f'\n{task}, against {reference}\n',
                  compare({level: part.value for level, part in levels.items()}, reference).round(4))
        panels[task] = Lines({level: (range(len(sizes)), part[columns].mean()) for level, part in levels.items()},
                             f'tokens, or times the area: {", ".join(map(str, sizes))}', 'right', mean='none')
    if picture:
        save_png(picture, panels)


if __name__ == '__main__':
    main(*sys.argv[1:])
