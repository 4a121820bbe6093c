"""Changes from the trained size to larger ones, for lab/docs/third_study.md.

    python lab/scripts/larger_changes.py larger_learned.csv larger_learned.png
    python lab/scripts/larger_changes.py larger.csv --task local --reference none

Prints a row for each attention and way of growing: the change of the right tokens from 196 tokens,
its 95 % interval, how it differs from that of the reference, and whether that is settled. A change
has two errors, that of the seeds and that of the canvases, which all seeds share. Differences have
Welch's degrees of freedom, and one correction by Holm over all rows. Runs of several kinds of
processor are compared within each of them.
"""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests

from mmflatten.results.drawing import save_png
from mmflatten.results.figures import Lines
from mmflatten.text import align
from mmflatten_lab.studies.families import left_out_sentence, processor_family

TRAINED = '196'  # tokens
SIZES = ('784', '3136')
# suffix of a metric -> how the canvas grows
GROWTHS = {'': 'more garments', '_kept': 'more, share kept', '_padded': 'black'}
ALPHA = 0.05
HEADER = ['attention', 'tokens', 'growth', 'seeds', 'change', 'difference', 'p', 'settled?']


class Change(NamedTuple):
    """Mean over seeds with the two parts of its squared standard error."""

    mean: float
    seeds: float  # of the mean over seeds; NaN for one seed
    canvases: float
    number: int  # of seeds

    @property
    def variance(self) -> float:
        return self.seeds + self.canvases

    @property
    def half_interval(self) -> float:
        """Half of the 95 % interval (Student's t); NaN for one seed."""
        freedom = degrees_of_freedom([self])
        return float(stats.t.ppf(1 - ALPHA / 2, freedom)) * math.sqrt(self.variance)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('table', type=Path, metavar='TABLE.csv', help='table of a study report')
    parser.add_argument(
        'picture', nargs='?', metavar='PICTURE.png', help='picture to write (default: none)'
    )
    parser.add_argument(
        '--reference',
        default='softmax',
        metavar='LEVEL',
        help='attention with which the others are compared (default: softmax)',
    )
    parser.add_argument('--task', metavar='LEVEL', help='of the factor task (default: all)')
    args = parser.parse_args(arguments)
    runs = read_runs(args.table, args.reference, args.task)
    rows = change_rows(runs, args.reference)
    print(align(rows, HEADER, {0, 2, 7}, markdown=True))
    for sentence in left_out(runs, args.reference):
        print(sentence)
    if args.picture:
        save_png(args.picture, panels(runs))


def read_runs(path: Path, reference: str, task: str | None = None) -> pd.DataFrame:
    """Read the finished runs of a table, of one task, with the column `family`. Tables without the
    error of the canvases have 0 there.

    Raises:
        ValueError: it has no accuracy at the trained size, or no run of the reference.
    """
    runs = pd.read_csv(path).rename(columns={'levels.attention': 'attention'})
    if column(TRAINED) not in runs:
        raise ValueError(
            f'TABLE.csv: expected the column {column(TRAINED)}, got {", ".join(runs)}.'
        )
    runs = runs[runs.state == 'finished']
    if task is not None:
        runs = runs[runs['levels.task'] == task]
    machines = runs.filter(like='machine.').rename(columns=lambda name: name.partition('.')[2])
    runs = runs.assign(family=[processor_family(row) for row in machines.to_dict('records')])
    if reference not in set(runs.attention):
        raise ValueError(f'TABLE.csv: expected finished runs of {reference}, got none.')
    for kind in (TRAINED, *measured_kinds(runs)):
        if column(kind, 'error') not in runs:
            runs = runs.assign(**{column(kind, 'error'): 0.0})
    return runs


def change_rows(runs: pd.DataFrame, reference: str) -> list[list[str]]:
    """A row for each attention, size and way of growing that the runs have."""
    compared = runs[runs.family.isin(reference_families(runs, reference))]
    tests = {}
    for kind in measured_kinds(runs):
        for name in compared.attention.unique():
            if name != reference:
                tests[name, kind] = difference(compared, (name, reference), kind)
    p_values = corrected({key: test[1] for key, test in tests.items()})
    rows = []
    for name in compared.attention.unique():
        for kind in measured_kinds(runs):
            change = change_of(compared[compared.attention == name], kind)
            shown = ['', '', '']
            if (name, kind) in tests:
                shown = shown_test(tests[name, kind][0], p_values[name, kind])
            tokens, _, suffix = kind.partition('_')
            growth = GROWTHS[f'_{suffix}' if suffix else '']
            rows.append([name, tokens, growth, str(change.number), shown_change(change), *shown])
    return rows


def change_of(runs: pd.DataFrame, kind: str) -> Change:
    """Change of the accuracy of one level from the trained size to a kind of canvas."""
    values = runs[column(kind)] - runs[column(TRAINED)]
    errors = runs[[column(kind, 'error'), column(TRAINED, 'error')]]
    # The seeds share the canvases, so their error does not fall with the number of seeds.
    canvases = float((errors**2).sum(axis='columns').mean())
    seeds = float(values.var() / len(values)) if len(values) > 1 else math.nan
    return Change(float(values.mean()), seeds, canvases, len(values))


def difference(runs: pd.DataFrame, levels: tuple[str, str], kind: str) -> tuple[float, float]:
    """Difference of the changes of two levels, and its p-value; NaN if one of them has one seed.
    The mean over the families of processors that have both.

    Source: Welch 1947, with Satterthwaite's degrees of freedom.
    """
    estimates = []
    parts = []
    for _, rows in runs.groupby('family'):
        pair = [change_of(rows[rows.attention == level], kind) for level in levels]
        if min(change.number for change in pair):
            estimates.append(pair[0].mean - pair[1].mean)
            parts += pair
    if not estimates:
        return math.nan, math.nan
    estimate = sum(estimates) / len(estimates)
    error = math.sqrt(sum(part.variance for part in parts)) / len(estimates)
    return estimate, float(2 * stats.t.sf(abs(estimate) / error, degrees_of_freedom(parts)))


def degrees_of_freedom(parts: Sequence[Change]) -> float:
    """Satterthwaite's degrees of freedom of a sum. The error of the canvases, of hundreds of them,
    counts as known. NaN if a part has one seed.
    """
    total = sum(part.variance for part in parts)
    squares = 0.0
    for part in parts:
        if part.number < 2:
            return math.nan
        squares += part.seeds**2 / (part.number - 1)
    return total**2 / squares if squares else math.inf


def corrected(p_values: dict) -> dict:
    """Correct p-values by Holm's method, without those that are NaN."""
    known = {key: p for key, p in p_values.items() if not math.isnan(p)}
    found = dict.fromkeys(p_values, math.nan)
    if known:
        found.update(zip(known, multipletests(list(known.values()), method='holm')[1]))
    return found


def shown_change(change: Change) -> str:
    half = change.half_interval
    if math.isnan(half):
        return f'{change.mean:+.1f}'
    return f'{change.mean:+.1f} [{change.mean - half:+.1f}, {change.mean + half:+.1f}]'


def shown_test(estimate: float, p: float) -> list[str]:
    if math.isnan(p):
        return [f'{estimate:+.1f}', '', 'no: too few seeds']
    return [f'{estimate:+.1f}', f'{p:.3f}', 'yes' if p < ALPHA else 'no']


def reference_families(runs: pd.DataFrame, reference: str) -> set[str]:
    return set(runs.family[runs.attention == reference])


def left_out(runs: pd.DataFrame, reference: str) -> list[str]:
    """A sentence for each level of a family of processors without the reference."""
    families = reference_families(runs, reference)
    sentences = []
    for family, rows in runs[~runs.family.isin(families)].groupby('family'):
        sentences.append(left_out_sentence(rows.attention.unique(), family, reference))
    return sentences


def measured_kinds(runs: pd.DataFrame) -> list[str]:
    kinds = []
    for suffix in GROWTHS:
        for size in SIZES:
            if column(size + suffix) in runs:
                kinds.append(size + suffix)
    return kinds


def panels(runs: pd.DataFrame) -> dict[str, Lines]:
    """Draw the mean of each level over the size, for each way of growing."""
    found = {}
    kinds = measured_kinds(runs)
    for suffix, title in GROWTHS.items():
        sizes = [size + suffix for size in SIZES if size + suffix in kinds]
        if not sizes:
            continue
        columns = [column(size) for size in (TRAINED, *sizes)]
        means = runs.groupby('attention', sort=False)[columns].mean()
        places = range(len(columns))
        lines = {level: (places, row) for level, row in means.iterrows()}
        label = 'tokens: 196 (0), 784 (1), 3,136 (2)'
        found[title] = Lines(lines, label, '% right', mean='none' if 'none' in lines else '')
    return found


def column(kind: str, measure: str = 'accuracy') -> str:
    return f'metrics.cells/{measure}_{kind}'


if __name__ == '__main__':
    main()
