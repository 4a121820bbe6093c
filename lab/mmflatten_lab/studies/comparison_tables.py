"""Tables and figures of a report, one for each metric and combination of the factors after the
first.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import cycle, product
from pathlib import Path

from matplotlib.figure import Figure

from mmflatten.text import align, figure_text
from mmflatten_lab.studies.controls import NONE
from mmflatten_lab.studies.runs import StudyRun
from mmflatten_lab.studies.statistics import (
    ALPHA,
    LIKE_NONE,
    Comparison,
    Family,
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
    """

    def __init__(
        self,
        study: Study,
        name: str,
        metric: str,
        runs: Sequence[StudyRun],
        baselines: Mapping[str, float] | None = None,
    ) -> None:
        self.study, self.name, self.metric, self.runs, self.baselines = (
            study,
            name,
            metric,
            runs,
            dict(baselines or {}),
        )
        self.sign = study.sign(metric)
        self.members: dict[str, list[StudyRun]] = defaultdict(list)
        for run in runs:
            self.members[next(iter(run.levels.values()), study.name)].append(run)
        self.intervals = {
            level: mean_interval([run.value for run in members])
            for level, members in self.members.items()
        }
        self.order = sorted(
            self.members, key=lambda name: self.sign * self.intervals[name].mean, reverse=True
        )
        factor = next(iter(study.factors), '')
        self.reference = next(
            (name for name in study.factors.get(factor, ()) if name in self.members), self.order[0]
        )
        self.values = seed_means(study, runs, factor) if factor else None
        mean = self.sign * self.intervals[self.reference].mean
        self.beaten_by = [
            name for name, value in self.baselines.items() if self.sign * value > mean
        ]
        self.judged = not self.baselines or len(self.beaten_by) < len(self.baselines)
        self.macs = {level: members[0].flops / 1e6 for level, members in self.members.items()}
        means = [self.sign * item.mean for item in self.intervals.values()]
        self.on_front = dict(zip(self.macs, pareto(list(self.macs.values()), means)))

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
        """Levels that cannot be told from the control without attention; empty if the study has no
        controls.
        """
        controlled = self.values is not None and isinstance(self.study.controls, list)
        return like_none(self.values) & {*self.members} if controlled else set()

    def text(self) -> str:
        """A row for each level, best mean first, compared with the first level of the study
        file.
        """
        factor, rows = next(iter(self.study.factors), ''), []
        for name in self.order:
            pair, runs = self.comparisons.get(name), self.members[name]
            compared = (
                ('', '', 'the reference' if name == self.reference else '')
                if pair is None
                else (pair.difference.text(self.sign), pair.p_text, pair.verdict)
            )
            rows.append(
                [
                    (factor, name),
                    ('seeds', str(len(runs))),
                    (self.metric, self.intervals[name].text()),
                    *zip((f'to {self.reference}', 'p', 'verdict'), compared),
                    ('params (M)', f'{runs[0].params / 1e6:.3f}'),
                    ('MACs (M)', f'{runs[0].flops / 1e6:.1f}'),
                    ('Pareto', 'yes' if self.on_front[name] else ''),
                ]
            )
        header = [title for title, _ in rows[0]]
        return align([[cell for _, cell in row] for row in rows], header, {0, 5}, markdown=True)

    def notes(self) -> list[str]:
        """Remarks below the table: baselines, controls, and unequal variances."""
        notes = []
        if self.baselines:
            values = ', '.join(f'{name} {value:.4g}' for name, value in self.baselines.items())
            notes.append(f'Baselines: {values}.')
        if self.beaten_by:
            notes.append(
                f'The reference, {self.reference}, is below {" and ".join(self.beaten_by)}'
                + ('.' if self.judged else ', so nothing is judged.')
            )
        if isinstance(self.study.controls, str):
            notes.append(f'No controls: {self.study.controls}')
        elif others := [name for name in self.order if name in self.like_none - {NONE}]:
            missing = ' The control has no runs.' if NONE not in self.members else ''
            notes.append(
                f'Not told from the control without attention ({NONE}):'
                f' {", ".join(others)}.{missing} Nothing is judged between these levels'
                f' ({LIKE_NONE}).'
            )
        p = equal_variance_p(self.values) if self.values is not None else math.nan
        if p < ALPHA:
            notes.append(
                f'The variances of the levels differ (Brown and Forsythe, p = {p:.3f}); the'
                ' intervals assume that they are equal.'
            )
        return notes


def comparison_tables(
    study: Study, runs: Iterable[StudyRun], baselines: Sequence[StudyRun] = ()
) -> list[ComparisonTable]:
    """Group finished runs of the grid into tables."""
    groups: dict[tuple, list[StudyRun]] = defaultdict(list)
    for run in runs:
        groups[(run.metric, *list(run.levels.items())[1:])].append(run)
    tables = []
    for (metric, *levels), members in groups.items():
        name = ', '.join(f'{factor} {level}' for factor, level in levels) or study.name
        values = {
            next(iter(run.levels.values()), run.name): run.value
            for run in baselines
            if run.metric == metric
        }
        tables.append(ComparisonTable(study, name, metric, members, values))
    return tables


def draw_costs(table: ComparisonTable, path: Path) -> None:
    """Draw all levels with their 95 % intervals, best first, and beside them the metric over the
    cost.
    """
    names, styles = list(table.members), {}
    figure = Figure(figsize=(9, max(4.5, 0.2 * len(names) + 1)), layout='constrained')
    levels, pareto_axes = figure.subplots(1, 2)
    means = {name: item.mean for name, item in table.intervals.items()}
    errors = {
        name: 0 if math.isnan(item.high) else item.high - item.mean
        for name, item in table.intervals.items()
    }
    unused = cycle(STYLES)
    for name in names:
        coloured = len(names) <= MAX_COLOURED or table.on_front[name]
        styles[name] = dict(zip(('fmt', 'color'), next(unused) if coloured else GREY))
    for row, name in enumerate(reversed(table.order)):
        levels.errorbar(means[name], row, xerr=errors[name], capsize=3, **styles[name])
    levels.set_yticks(range(len(names)), map(figure_text, reversed(table.order)))
    for name, value in table.baselines.items():
        levels.axvline(value, color='0.3', linestyle=':')
        levels.annotate(
            figure_text(name),
            (value, 1),
            xycoords=('data', 'axes fraction'),
            rotation=90,
            ha='right',
            va='top',
            size=8,
        )
    label = f'{table.metric} ({"higher" if table.sign > 0 else "lower"} is better)'
    levels.grid(axis='x', color='0.9')
    levels.set_xlabel(label)
    pareto_axes.plot(
        *zip(*sorted((table.macs[name], means[name]) for name in names if table.on_front[name])),
        color='0.4',
        zorder=1,
    )
    for name in names:
        pareto_axes.errorbar(
            table.macs[name],
            means[name],
            errors[name],
            capsize=3,
            zorder=2 if styles[name]['color'] == GREY[1] else 3,
            **styles[name],
        )
    pareto_axes.margins(x=0.1)
    pareto_axes.set(xlabel='multiply-accumulates of an image (M)', ylabel=label)
    figure.savefig(path, dpi=100)
