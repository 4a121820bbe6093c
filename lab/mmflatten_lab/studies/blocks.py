"""Tables and figures of a report: one block for each metric and combination of the factors after the first."""
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import cycle, product
from pathlib import Path

from matplotlib.figure import Figure

from mmflatten.text import align, figure_text
from mmflatten_lab.studies.runs import BEST, GRID, StudyRun
from mmflatten_lab.studies.statistics import (
    ALPHA,
    Comparison,
    Family,
    compare_all,
    effects,
    mean_interval,
    pareto,
    seed_means,
    spread_test,
)
from mmflatten_lab.studies.study import Study

MACS = 'multiply-accumulates of an image (M)'
MAX_COLOURED = 8  # levels in a figure; if there are more, only those on a Pareto front are coloured
STYLES = list(product('os^D', [f'C{number}' for number in range(10) if number != 7]))  # C7 is grey
GREY = ('o', '0.7')
TITLES = {GRID: 'One recipe for all', BEST: 'Each at its best'}


class Block:
    """Runs of one metric that differ in the level of the first factor and in the seed.

    Attributes:
        members: level of the first factor -> its runs.
        anchors: name -> mean of the metric. If the reference is below all of them, no level is judged.
        costs: kind of cost -> level -> cost.
        fronts: kind of cost -> level -> True on the Pareto front of metric and cost.
    """

    def __init__(self, study: Study, name: str, metric: str, runs: Sequence[StudyRun],
                 anchors: Mapping[str, float] | None = None) -> None:
        self.study, self.name, self.metric, self.runs, self.anchors = study, name, metric, runs, dict(anchors or {})
        self.sign = study.sign(metric)
        self.members: dict[str, list[StudyRun]] = defaultdict(list)
        for run in runs:
            self.members[next(iter(run.levels.values()), study.name)].append(run)
        self.intervals = {level: mean_interval([run.value for run in members])
                          for level, members in self.members.items()}
        self.order = sorted(self.members, key=lambda name: self.sign * self.intervals[name].mean, reverse=True)
        factor = next(iter(study.factors), '')
        self.reference = next((name for name in study.factors.get(factor, ()) if name in self.members), self.order[0])
        self.values = seed_means(study, runs, factor) if factor else None
        mean = self.sign * self.intervals[self.reference].mean
        self.beaten_by = [name for name, value in self.anchors.items() if self.sign * value > mean]
        self.judged = not self.anchors or len(self.beaten_by) < len(self.anchors)
        self.costs = {MACS: {level: members[0].flops / 1e6 for level, members in self.members.items()}}
        means = [self.sign * item.mean for item in self.intervals.values()]
        self.fronts = {cost: dict(zip(values, pareto(list(values.values()), means)))
                       for cost, values in self.costs.items()}

    @cached_property
    def comparisons(self) -> dict[str, Comparison]:
        """Every level against the reference; empty if nothing is judged."""
        if self.values is None or not self.judged:
            return {}
        margin = self.study.margin.get(self.metric, 0.)
        return {pair.first: pair for pair in compare_all(self.values, self.reference, Family(margin))}

    def table(self) -> str:
        """A row for each level, best mean first, each compared with the level that the study file lists first."""
        factor, rows = next(iter(self.study.factors), ''), []
        for name in self.order:
            pair, runs = self.comparisons.get(name), self.members[name]
            compared = ('', '', 'the reference' if name == self.reference else '') if pair is None else (
                pair.difference.text(self.sign), pair.p_text, pair.verdict)
            rows.append([
                (factor, name), ('seeds', str(len(runs))), (self.metric, self.intervals[name].text()),
                *zip((f'to {self.reference}', 'p', 'verdict'), compared),
                ('params (M)', f'{runs[0].params / 1e6:.3f}'), ('MACs (M)', f'{runs[0].flops / 1e6:.1f}'),
                ('tuned', ', '.join(f'{value:g}' for value in (runs[0].tuned or {}).values())),
                ('Pareto', 'yes' if self.fronts[MACS][name] else '')])
        header = [title for title, _ in rows[0]]
        return align([[cell for _, cell in row] for row in rows], header, {0, 5}, markdown=True)

    def notes(self) -> list[str]:
        """What a reader has to know of the table."""
        notes = []
        if self.anchors:
            notes.append('Anchors: ' + ', '.join(f'{name} {value:.4g}' for name, value in self.anchors.items()) + '.')
        if self.beaten_by:
            notes.append(f'The reference, {self.reference}, is below {" and ".join(self.beaten_by)}'
                         + ('.' if self.judged else ', so nothing is judged.'))
        p = spread_test(self.values) if self.values is not None else math.nan
        if p < ALPHA:
            notes.append(f'The spreads of the levels differ (Brown and Forsythe, p = {p:.3f}); the intervals assume '
                         'that they are equal.')
        return notes


def blocks_of(study: Study, runs: Iterable[StudyRun], anchors: Iterable[StudyRun] = ()) -> list[Block]:
    """Group finished runs of one mode into blocks."""
    anchors = list(anchors)
    groups: dict[tuple, list[StudyRun]] = defaultdict(list)
    for run in runs:
        groups[(run.metric, *list(run.levels.items())[1:])].append(run)
    return [Block(study, ', '.join(f'{factor} {level}' for factor, level in levels) or study.name, metric, members,
                  {next(iter(run.levels.values()), run.name): run.value for run in anchors if run.metric == metric})
            for (metric, *levels), members in groups.items()]


def effects_table(study: Study, runs: Sequence[StudyRun]) -> str:
    """What each level of the later factors adds, on average and within each level of the first; '' without a grid."""
    found = effects(study, runs)
    if not found:
        return ''
    first = next(iter(study.factors))
    rows = [[f'{effect.factor} {effect.level}', f'over {effect.reference}', effect.within or '**all**',
             effect.difference.text(), f'{effect.p:.3f}' if effect.p >= .0005 else '<0.001'] for effect in found]
    return align(rows, ['level', '', first, 'adds, larger is better', 'p'], {0, 1, 2}, markdown=True)


def tuned_table(study: Study, runs: Iterable[StudyRun]) -> str:
    """Each cell with the shared recipe beside the same cell with tuned settings; '' if nothing was tuned."""
    cells: dict[tuple, dict[str, list[StudyRun]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        cells[(*run.levels.values(), run.metric)][run.mode].append(run)
    rows = []
    for cell, modes in cells.items():
        if modes.keys() >= TITLES.keys():
            tuned = ', '.join(f'{path.rpartition(".")[2]} {value:g}' for path, value in modes[BEST][0].tuned.items())
            rows.append([*cell, *(mean_interval([run.value for run in modes[mode]]).text() for mode in TITLES), tuned])
    header = [*study.factors, 'metric', *(title.lower() for title in TITLES.values()), 'tuned']
    return align(rows, header, set(range(len(header) - 3)), markdown=True) if rows else ''


def draw_costs(block: Block, path: Path) -> None:
    """Draw all levels with their 95 % intervals, best first, and beside it the Pareto front for each kind of cost."""
    label = f'{block.metric} ({"higher" if block.sign > 0 else "lower"} is better)'
    names = list(block.members)
    figure = Figure(figsize=(4.5 * (1 + len(block.costs)), max(4.5, 0.2 * len(names) + 1)), layout='constrained')
    levels, *panels = figure.subplots(1, 1 + len(block.costs))
    means = {name: item.mean for name, item in block.intervals.items()}
    errors = {name: 0 if math.isnan(item.high) else item.high - item.mean for name, item in block.intervals.items()}
    left, styles = cycle(STYLES), {}
    for name in names:
        coloured = len(names) <= MAX_COLOURED or any(front[name] for front in block.fronts.values())
        styles[name] = dict(zip(('fmt', 'color'), next(left) if coloured else GREY))
    for row, name in enumerate(reversed(block.order)):
        levels.errorbar(means[name], row, xerr=errors[name], capsize=3, **styles[name])
    levels.set_yticks(range(len(names)), map(figure_text, reversed(block.order)))
    for name, value in block.anchors.items():
        levels.axvline(value, color='0.3', linestyle=':')
        levels.annotate(figure_text(name), (value, 1), xycoords=('data', 'axes fraction'), rotation=90, ha='right',
                        va='top', size=8)
    levels.grid(axis='x', color='0.9')
    levels.set_xlabel(label)
    for axes, (cost, points) in zip(panels, block.costs.items()):
        front = sorted((points[name], means[name]) for name in names if block.fronts[cost][name])
        axes.plot(*zip(*front), color='0.4', zorder=1)
        for name in names:
            axes.errorbar(points[name], means[name], errors[name], capsize=3,
                          zorder=2 if styles[name]['color'] == GREY[1] else 3, **styles[name])
        axes.margins(x=0.1)
        axes.set(xlabel=cost, ylabel=label)
    figure.savefig(path, dpi=100)
