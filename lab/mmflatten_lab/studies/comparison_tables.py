"""Tables and figures of a report, one for each metric and combination of the factors after the
first.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import cycle, product
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mmflatten.text import align, figure_text
from mmflatten_lab.studies.comparisons import ALPHA, LIKE_NONE, Comparison, Family, Interval
from mmflatten_lab.studies.controls import NONE
from mmflatten_lab.studies.families import comparable_runs
from mmflatten_lab.studies.runs import StudyRun
from mmflatten_lab.studies.statistics import (
    compare_all,
    equal_variance_p,
    like_none,
    mean_interval,
    pareto,
    seed_means,
    unless_like_none,
)
from mmflatten_lab.studies.study import Study

MAX_COLOURED = 8  # levels in a figure; if there are more, only those on a Pareto front are coloured
STYLES = list(product('os^D', [f'C{number}' for number in range(10) if number != 7]))  # C7 is grey
GREY = ('o', '0.7')


class ComparisonTable:
    """Comparison of runs of one metric that differ in the level of the first factor and in the
    seed.

    Attributes:
        members: level of the first factor -> its runs.
        baselines: name -> mean of the metric. If the reference is below all of them, no level is
            judged.
        macs: level -> millions of multiply-accumulates of an image.
        on_front: level -> True on the Pareto front of metric and multiply-accumulates.
        family_notes: what is compared of runs of several families of processors.
    """

    def __init__(
        self,
        study: Study,
        name: str,
        metric: str,
        runs: Sequence[StudyRun],
        baselines: Mapping[str, float] | None = None,
    ) -> None:
        self.study = study
        self.name = name
        self.metric = metric
        self.runs = runs
        self.baselines = dict(baselines or {})
        self.sign = study.sign(metric)
        self.members: dict[str, list[StudyRun]] = defaultdict(list)
        for run in runs:
            self.members[next(iter(run.levels.values()), study.name)].append(run)

        # Levels with their means in the direction where higher is better.
        self.intervals = {}
        for level, members in self.members.items():
            self.intervals[level] = mean_interval([run.value for run in members])
        means = {level: self.sign * item.mean for level, item in self.intervals.items()}
        self.order = sorted(self.members, key=means.__getitem__, reverse=True)

        # The reference is the first level of the study file that has runs.
        factor = next(iter(study.factors), '')
        measured = [level for level in study.factors.get(factor, ()) if level in self.members]
        self.reference = measured[0] if measured else self.order[0]
        self.values = None
        self.family_notes: list[str] = []
        if factor:
            compared, self.family_notes = comparable_runs(runs, factor, self.reference)
            self.values = seed_means(study, compared, factor)
        self.beaten_by = []
        for baseline, value in self.baselines.items():
            if self.sign * value > means[self.reference]:
                self.beaten_by.append(baseline)
        self.judged = not self.baselines or len(self.beaten_by) < len(self.baselines)

        self.macs = {level: members[0].flops / 1e6 for level, members in self.members.items()}
        front = pareto(list(self.macs.values()), list(means.values()))
        self.on_front = dict(zip(self.macs, front))

    @cached_property
    def comparisons(self) -> dict[str, Comparison]:
        """Every level against the reference; empty if nothing is judged."""
        if self.values is None or not self.judged:
            return {}
        margin = self.study.margin.get(self.metric, 0.0)
        pairs = compare_all(self.values, self.reference, Family(margin))
        return {pair.first: pair for pair in unless_like_none(pairs, self.like_none)}

    @cached_property
    def like_none(self) -> set[str]:
        """Levels without a significant difference from the control without attention; empty if the
        study has no controls.
        """
        if self.values is None or not isinstance(self.study.controls, list):
            return set()
        return like_none(self.values) & set(self.members)

    def text(self) -> str:
        """A row for each level, best mean first, compared with the first level of the study
        file.
        """
        header = [
            next(iter(self.study.factors), ''),
            'seeds',
            self.metric,
            f'to {self.reference}',
            'p',
            'verdict',
            'params (M)',
            'MACs (M)',
            'Pareto',
        ]
        rows = [self._row(level) for level in self.order]
        return align(rows, header, {0, 5}, markdown=True)

    def _row(self, level: str) -> list[str]:
        run = self.members[level][0]
        return [
            level,
            str(len(self.members[level])),
            self.intervals[level].text(),
            *self._compared(level),
            f'{run.params / 1e6:.3f}',
            f'{run.flops / 1e6:.1f}',
            'yes' if self.on_front[level] else '',
        ]

    def _compared(self, level: str) -> tuple[str, str, str]:
        """Difference from the reference, its p-value, and the verdict."""
        if level in self.comparisons:
            pair = self.comparisons[level]
            return pair.difference.text(self.sign), pair.p_text, pair.verdict
        return '', '', 'the reference' if level == self.reference else ''

    def notes(self) -> list[str]:
        """Remarks below the table: baselines, controls, and unequal variances."""
        notes = []
        if self.baselines:
            values = ', '.join(f'{name} {value:.4g}' for name, value in self.baselines.items())
            notes.append(f'Baselines: {values}.')
        if self.beaten_by:
            end = '.' if self.judged else ', so nothing is judged.'
            beaten_by = ' and '.join(self.beaten_by)
            notes.append(f'The reference, {self.reference}, is below {beaten_by}{end}')
        if isinstance(self.study.controls, str):
            notes.append(f'No controls: {self.study.controls}')
        notes += self.family_notes
        notes += self._notes_on_control()
        p = equal_variance_p(self.values) if self.values is not None else math.nan
        if p < ALPHA:
            notes.append(
                f'The variances of the levels differ (Brown and Forsythe, p = {p:.3f}); the'
                ' intervals assume that they are equal.'
            )
        return notes

    def _notes_on_control(self) -> list[str]:
        others = [level for level in self.order if level in self.like_none and level != NONE]
        if not others:
            return []
        missing = ' The control has no runs.' if NONE not in self.members else ''
        return [
            f'No significant difference from the control without attention ({NONE}):'
            f' {", ".join(others)}.{missing} Nothing is judged between these levels'
            f' ({LIKE_NONE}).'
        ]


def comparison_tables(
    study: Study, runs: Iterable[StudyRun], baselines: Sequence[StudyRun] = ()
) -> list[ComparisonTable]:
    """Group finished runs of the grid into tables."""
    groups: dict[tuple, list[StudyRun]] = defaultdict(list)
    for run in runs:
        others = list(run.levels.items())[1:]
        groups[run.metric, *others].append(run)
    tables = []
    for (metric, *levels), members in groups.items():
        name = ', '.join(f'{factor} {level}' for factor, level in levels) or study.name
        values = {}
        for run in baselines:
            if run.metric == metric:
                values[next(iter(run.levels.values()), run.name)] = run.value
        tables.append(
            ComparisonTable(study, name=name, metric=metric, runs=members, baselines=values)
        )
    return tables


def draw_costs(table: ComparisonTable, path: Path) -> None:
    """Draw all levels with their 95 % intervals, best first, and beside them the metric over the
    cost.
    """
    figure = Figure(figsize=(9, max(4.5, 0.2 * len(table.members) + 1)), layout='constrained')
    levels_axes, costs_axes = figure.subplots(1, 2)
    styles = _styles(table)
    _draw_levels(levels_axes, table, styles)
    _draw_front(costs_axes, table, styles)
    figure.savefig(path, dpi=100)


def _styles(table: ComparisonTable) -> dict[str, dict[str, str]]:
    """Marker and colour of each level. Many levels are grey outside the Pareto front."""
    unused = cycle(STYLES)
    styles = {}
    for level in table.members:
        coloured = len(table.members) <= MAX_COLOURED or table.on_front[level]
        marker, color = next(unused) if coloured else GREY
        styles[level] = dict(fmt=marker, color=color)
    return styles


def _draw_levels(axes: Axes, table: ComparisonTable, styles: dict[str, dict[str, str]]) -> None:
    """Draw a row for each level, the best on top, and a line for each baseline."""
    worst_first = table.order[::-1]
    for row, level in enumerate(worst_first):
        interval = table.intervals[level]
        axes.errorbar(interval.mean, row, xerr=_error(interval), capsize=3, **styles[level])
    axes.set_yticks(range(len(worst_first)), map(figure_text, worst_first))
    for name, value in table.baselines.items():
        axes.axvline(value, color='0.3', linestyle=':')
        axes.annotate(
            figure_text(name),
            (value, 1),
            xycoords=('data', 'axes fraction'),
            rotation=90,
            ha='right',
            va='top',
            size=8,
        )
    axes.grid(axis='x', color='0.9')
    axes.set_xlabel(_metric_label(table))


def _draw_front(axes: Axes, table: ComparisonTable, styles: dict[str, dict[str, str]]) -> None:
    """Draw the metric of each level over its cost, and a line through the Pareto front."""
    front = []
    for level, interval in table.intervals.items():
        if table.on_front[level]:
            front.append((table.macs[level], interval.mean))
    axes.plot(*zip(*sorted(front)), color='0.4', zorder=1)
    for level, interval in table.intervals.items():
        axes.errorbar(
            table.macs[level],
            interval.mean,
            yerr=_error(interval),
            capsize=3,
            zorder=2 if styles[level]['color'] == GREY[1] else 3,
            **styles[level],
        )
    axes.margins(x=0.1)
    axes.set(xlabel='multiply-accumulates of an image (M)', ylabel=_metric_label(table))


def _error(interval: Interval) -> float:
    return 0.0 if math.isnan(interval.high) else interval.high - interval.mean


def _metric_label(table: ComparisonTable) -> str:
    return f'{table.metric} ({"higher" if table.sign > 0 else "lower"} is better)'
