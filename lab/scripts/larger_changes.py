"""Changes from the trained size to larger ones, for lab/docs/third_study.md.

    python lab/scripts/larger_changes.py larger_learned.csv larger_learned.png --own-canvases
    python lab/scripts/larger_changes.py larger_learned.csv --own-canvases --seeds 10 --wide
    python lab/scripts/larger_changes.py larger_learned.csv --own-canvases --again avx2.csv
    python lab/scripts/larger_changes.py larger.csv --where task=local --reference none

Prints a row for each attention and way of growing: the number of seeds, the change of the right
tokens from 196 tokens, its 95 % interval, how it differs from that of the reference, and whether
that is settled. `--wide` prints a row for each attention with all of its changes. `--again` adds a
table of whether the changes repeat in a second file, such as that of another processor.

A change has two errors, that of the seeds and that of the canvases, which all seeds share, and
differences have Welch's degrees of freedom. With `--own-canvases`, each seed has canvases of its
own: its spread has their error, and a level is compared with the reference seed by seed. All rows
of levels with the planned seeds have one correction by Holm. Runs of several kinds of processor
are compared within each of them. A level that gives nearly all tokens one class is named and not
compared.
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
CONSTANT = 95.0  # % of the tokens that get the commonest answer
HEADER = ['attention', 'tokens', 'growth', 'seeds', 'change', 'difference', 'p', 'settled?']
AGAIN = ['attention', 'tokens', 'growth', 'seeds', 'second less first', 'repeats?']


class Design(NamedTuple):
    """How the levels are compared: with which one, and what the seeds share."""

    reference: str
    own_canvases: bool = False
    seeds: int = 2  # planned for each level


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
    parser.add_argument(
        '--own-canvases', action='store_true', help='each seed was tested on canvases of its own'
    )
    parser.add_argument(
        '--seeds',
        type=int,
        default=2,
        metavar='N',
        help='planned seeds of each level, without which nothing is settled (default: 2)',
    )
    parser.add_argument(
        '--wide',
        action='store_true',
        help='a row for each attention; a * follows changes that are settled',
    )
    parser.add_argument(
        '--again', type=Path, metavar='OTHER.csv', help='the same seeds on another processor'
    )
    parser.add_argument(
        '--margin',
        type=float,
        default=4.0,
        metavar='POINTS',
        help='within which the change of another processor repeats (default: 4)',
    )
    parser.add_argument(
        '--where', metavar='FACTOR=LEVEL', help='runs to take, such as task=local (default: all)'
    )
    args = parser.parse_args(arguments)
    design = Design(args.reference, own_canvases=args.own_canvases, seeds=args.seeds)
    runs = read_runs(args.table, args.reference, args.where)
    if args.wide:
        header = wide_header(runs)
        last = len(header) - 1
        print(align(wide_rows(runs, design), header, {0, last}, markdown=True))
    else:
        print(align(change_rows(runs, design), HEADER, {0, 2, 7}, markdown=True))
    for sentence in left_out(runs, args.reference):
        print(sentence)
    if args.again:
        again = read_runs(args.again, args.reference, args.where)
        rows = repeated_rows(runs, again, design, margin=args.margin)
        print()
        print(align(rows, AGAIN, {0, 2, 5}, markdown=True))
    if args.picture:
        save_png(args.picture, panels(runs, design))


def read_runs(path: Path, reference: str, where: str | None = None) -> pd.DataFrame:
    """Read the finished runs of a table, of one level such as `task=local`, with the column
    `family`. Tables without the error of the canvases have 0 there.

    Raises:
        ValueError: it has no accuracy at the trained size, no such factor, or no run of the
            reference.
    """
    runs = pd.read_csv(path).rename(columns={'levels.attention': 'attention'})
    if column(TRAINED) not in runs:
        raise ValueError(
            f'TABLE.csv: expected the column {column(TRAINED)}, got {", ".join(runs)}.'
        )
    runs = runs[runs.state == 'finished']
    if where is not None:
        factor, _, level = where.partition('=')
        if f'levels.{factor}' not in runs:
            raise ValueError(
                f'--where: expected FACTOR=LEVEL with a factor of {path}, got {where}. Correct it.'
            )
        runs = runs[runs[f'levels.{factor}'] == level]
    machines = runs.filter(like='machine.').rename(columns=lambda name: name.partition('.')[2])
    runs = runs.assign(family=[processor_family(row) for row in machines.to_dict('records')])
    if reference not in set(runs.attention):
        raise ValueError(f'TABLE.csv: expected finished runs of {reference}, got none.')
    for kind in (TRAINED, *measured_kinds(runs)):
        if column(kind, 'error') not in runs:
            runs = runs.assign(**{column(kind, 'error'): 0.0})
    return runs


def change_rows(runs: pd.DataFrame, design: Design) -> list[list[str]]:
    """A row for each attention, size and way of growing that the runs have."""
    compared = runs[runs.family.isin(reference_families(runs, design.reference))]
    constant = constant_levels(compared)
    tests = planned_tests(compared, design)
    rows = []
    for name in compared.attention.unique():
        for kind in measured_kinds(runs):
            change = change_of(compared[compared.attention == name], kind, design.own_canvases)
            shown = ['', '', 'constant'] if name in constant else ['', '', '']
            if (name, kind) in tests:
                shown = shown_test(*tests[name, kind])
            rows.append([name, *words(kind), str(change.number), shown_change(change), *shown])
    return rows


def wide_header(runs: pd.DataFrame) -> list[str]:
    changes = [', '.join(words(kind)) for kind in measured_kinds(runs)]
    return ['attention', 'seeds', TRAINED, *changes, 'settled?']


def wide_rows(runs: pd.DataFrame, design: Design) -> list[list[str]]:
    """A row for each attention: seeds, accuracy at the trained size, the change to each kind of
    canvas with half of its 95 % interval, and how many of the changes are settled to differ from
    that of the reference. A * marks them.
    """
    compared = runs[runs.family.isin(reference_families(runs, design.reference))]
    constant = constant_levels(compared)
    tests = planned_tests(compared, design)
    kinds = measured_kinds(runs)
    rows = []
    for name, level in compared.groupby('attention', sort=False):
        changes = []
        p_values = []
        for kind in kinds:
            change = shown_half(change_of(level, kind, design.own_canvases))
            _, p = tests.get((name, kind), (math.nan, math.nan))
            p_values.append(p)
            changes.append(f'{change} *' if p < ALPHA else change)
        accuracy = f'{level[column(TRAINED)].mean():.1f}'
        shown = f'{name} (constant)' if name in constant else name
        verdict = '' if name == design.reference else settled(p_values)
        rows.append([shown, str(len(level)), accuracy, *changes, verdict])
    return rows


def shown_half(change: Change) -> str:
    """A change with half of its interval, which one seed lacks."""
    half = change.half_interval
    return f'{change.mean:+.1f}' if math.isnan(half) else f'{change.mean:+.1f} ± {half:.1f}'


def settled(p_values: Sequence[float]) -> str:
    """How many of the corrected p-values of a level are below the limit."""
    tested = [p for p in p_values if not math.isnan(p)]
    if not tested:
        return 'not tested'
    return f'{sum(p < ALPHA for p in tested)} of {len(tested)}'


def planned_tests(compared: pd.DataFrame, design: Design) -> dict:
    """Difference of each level's change from that of the reference, with its corrected p-value; NaN
    for a level without the planned seeds. Levels of one answer are left out.
    """
    constant = constant_levels(compared)
    estimates = {}
    p_values = {}
    for kind in measured_kinds(compared):
        for name in compared.attention.unique():
            if name == design.reference or name in constant:
                continue
            estimates[name, kind], p = difference(compared, name, kind, design)
            if (compared.attention == name).sum() >= design.seeds:
                p_values[name, kind] = p
    p_values = corrected(p_values)
    return {key: (estimate, p_values.get(key, math.nan)) for key, estimate in estimates.items()}


def words(kind: str) -> tuple[str, str]:
    """Tokens of a kind of canvas, and how it grows."""
    tokens, _, suffix = kind.partition('_')
    return tokens, GROWTHS[f'_{suffix}' if suffix else '']


def constant_levels(runs: pd.DataFrame) -> set[str]:
    """Levels that give nearly all tokens of the trained size the same class."""
    name = column(TRAINED, 'commonest')
    if name not in runs:
        return set()
    means = runs.groupby('attention')[name].mean()
    return set(means.index[means >= CONSTANT])


def change_of(runs: pd.DataFrame, kind: str, own_canvases: bool = False) -> Change:
    """Change of the accuracy of one level from the trained size to a kind of canvas."""
    change = mean_of(runs[column(kind)] - runs[column(TRAINED)])
    if own_canvases:
        return change
    errors = runs[[column(kind, 'error'), column(TRAINED, 'error')]]
    # The seeds share the canvases, so their error does not fall with the number of seeds.
    return change._replace(canvases=float((errors**2).sum(axis='columns').mean()))


def mean_of(values: pd.Series) -> Change:
    seeds = float(values.var() / len(values)) if len(values) > 1 else math.nan
    return Change(float(values.mean()), seeds, canvases=0.0, number=len(values))


def difference(runs: pd.DataFrame, level: str, kind: str, design: Design) -> tuple[float, float]:
    """Difference of the change of a level from that of the reference, and its p-value; NaN if one
    of them has one seed. The mean over the families of processors that have both.

    With canvases that belong to the seeds, Student's test of the pairs of one seed; else Welch's
    (1947), with Satterthwaite's degrees of freedom.
    """
    estimates = []
    parts = []
    for _, rows in runs.groupby('family'):
        first = rows[rows.attention == level]
        second = rows[rows.attention == design.reference]
        if design.own_canvases:
            differences = paired(first, second, kind)
            if len(differences):
                estimates.append(differences.mean())
                parts.append(mean_of(differences))
        elif len(first) and len(second):
            pair = [change_of(first, kind), change_of(second, kind)]
            estimates.append(pair[0].mean - pair[1].mean)
            parts += pair
    if not estimates:
        return math.nan, math.nan
    estimate = sum(estimates) / len(estimates)
    error = math.sqrt(sum(part.variance for part in parts)) / len(estimates)
    return estimate, float(2 * stats.t.sf(abs(estimate) / error, degrees_of_freedom(parts)))


def paired(first: pd.DataFrame, second: pd.DataFrame, kind: str) -> pd.Series:
    """Differences of the changes of two levels with the same seed, over the seeds of both."""
    changes = []
    for runs in (first, second):
        by_seed = runs.set_index('seed')
        changes.append(by_seed[column(kind)] - by_seed[column(TRAINED)])
    return (changes[0] - changes[1]).dropna()


def repeated_rows(
    first: pd.DataFrame, second: pd.DataFrame, design: Design, *, margin: float
) -> list[list[str]]:
    """A row for each level and kind of canvas of two tables: the difference of their changes over
    the seeds of both, its 95 % interval, and whether that lies within the margin.
    """
    rows = []
    for name in first.attention.unique():
        pair = [runs[runs.attention == name] for runs in (second, first)]
        for kind in measured_kinds(first):
            change = mean_of(paired(*pair, kind))
            if change.number:
                verdict = shown_repeat(change, design.seeds, margin)
                seeds = str(change.number)
                rows.append([name, *words(kind), seeds, shown_change(change), verdict])
    return rows


def shown_repeat(change: Change, seeds: int, margin: float) -> str:
    half = change.half_interval
    if change.number < max(2, seeds):
        return 'not settled: too few seeds'
    if abs(change.mean) + half <= margin:
        return 'yes'
    return 'no' if abs(change.mean) > half else 'not settled'


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


def panels(runs: pd.DataFrame, design: Design) -> dict[str, Lines]:
    """Draw the mean of each level with the planned seeds over the size, for each way of growing."""
    seeds = runs.groupby('attention')['seed'].transform('count')
    planned = runs[seeds >= design.seeds]
    found = {}
    kinds = measured_kinds(runs)
    for suffix, title in GROWTHS.items():
        sizes = [size + suffix for size in SIZES if size + suffix in kinds]
        if not sizes:
            continue
        columns = [column(size) for size in (TRAINED, *sizes)]
        means = planned.groupby('attention', sort=False)[columns].mean()
        places = range(len(columns))
        lines = {level: (places, row) for level, row in means.iterrows()}
        ticks = [words(size)[0] for size in (TRAINED, *sizes)]
        found[title] = Lines(
            lines,
            'tokens',
            '% right',
            limits=(0, 100),
            mean=design.reference,
            markers=True,
            ticks=ticks,
        )
    return found


def column(kind: str, measure: str = 'accuracy') -> str:
    return f'metrics.cells/{measure}_{kind}'


if __name__ == '__main__':
    main()
