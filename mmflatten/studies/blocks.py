"""Tables and figures of a report: one block for each metric and combination of the factors after the first."""
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import cycle, product
from pathlib import Path
from statistics import mean

from matplotlib.figure import Figure

from mmflatten.studies.runs import BEST, GRID, StudyRun
from mmflatten.studies.statistics import compare, holm, interval, pareto, seed_means
from mmflatten.studies.study import Study, counted
from mmflatten.text_table import align

MACS = 'multiply-accumulates of an image (M)'
MAX_COLOURED = 8  # levels in a figure; if there are more, only those on a Pareto front are coloured
STYLES = list(product('os^D', [f'C{number}' for number in range(10) if number != 7]))  # C7 is grey
GREY = ('o', '0.7')
TITLES = {GRID: 'One recipe for all', BEST: 'Each at its best'}


class Block:
    """Runs of one metric that differ in the level of the first factor and in the seed.

    Attributes:
        members: level of the first factor -> its runs.
        devices: where the times were measured. Times on different devices are not compared.
        costs: kind of cost -> level -> cost.
        fronts: kind of cost -> level -> True on the Pareto front of metric and cost.
    """

    def __init__(self, study: Study, name: str, metric: str, runs: Sequence[StudyRun]) -> None:
        self.study, self.name, self.metric, self.runs = study, name, metric, runs
        self.sign = study.sign(metric)
        self.members: dict[str, list[StudyRun]] = defaultdict(list)
        for run in runs:
            self.members[next(iter(run.levels.values()), study.name)].append(run)
        self.intervals = {level: interval([run.value for run in members]) for level, members in self.members.items()}
        self.devices = sorted({run.machine['gpu'] if run.gpu_seconds else
                               f'{run.machine["processor"]}, {counted(run.machine["threads"], "thread")}'
                               for run in runs})
        self.costs = {MACS: {level: members[0].flops / 1e6 for level, members in self.members.items()}}
        if len(self.devices) == 1:
            self.costs['CPU or GPU seconds per run'] = {
                level: mean(map(_seconds, members)) for level, members in self.members.items()}
        means = [self.sign * item.mean for item in self.intervals.values()]
        self.fronts = {cost: dict(zip(values, pareto(list(values.values()), means)))
                       for cost, values in self.costs.items()}

    def table(self) -> str:
        """A row for each level, best mean first, each compared with the level that the study file lists first."""
        factor = next(iter(self.study.factors), '')
        order = sorted(self.members, key=lambda name: self.sign * self.intervals[name].mean, reverse=True)
        reference = next((name for name in self.study.factors.get(factor, ()) if name in self.members), order[0])
        values = seed_means(self.study, self.runs, factor) if factor else None
        pairs = {pair.first: pair for pair in holm([compare(name, reference, values) for name in order
                                                    if name != reference])}
        rows = []
        for name in order:
            pair, runs = pairs.get(name), self.members[name]
            compared = ('', '', 'the reference') if pair is None else (
                pair.difference.text(self.sign), pair.p_text, pair.verdict)
            rows.append([
                (factor, name), ('seeds', str(len(runs))), (self.metric, self.intervals[name].text()),
                *zip((f'to {reference}', 'p', 'verdict'), compared),
                ('params (M)', f'{runs[0].params / 1e6:.3f}'), ('MACs (M)', f'{runs[0].flops / 1e6:.1f}'),
                *([('seconds', f'{mean(map(_seconds, runs)):.0f}')] if len(self.devices) == 1 else []),
                ('tuned', ', '.join(f'{value:g}' for value in (runs[0].tuned or {}).values())),
                ('Pareto', 'yes' if self.fronts[MACS][name] else '')])
        header = [title for title, _ in rows[0]]
        return align([[cell for _, cell in row] for row in rows], header, {0, 5}, markdown=True)


def blocks_of(study: Study, runs: Iterable[StudyRun]) -> list[Block]:
    """Group finished runs of one mode into blocks."""
    groups: dict[tuple, list[StudyRun]] = defaultdict(list)
    for run in runs:
        groups[(run.metric, *list(run.levels.items())[1:])].append(run)
    return [Block(study, ', '.join(f'{factor} {level}' for factor, level in levels) or study.name, metric, members)
            for (metric, *levels), members in groups.items()]


def _seconds(run: StudyRun) -> float:
    """GPU time if there is one, else CPU time, which depends less on other processes than wall time."""
    return run.gpu_seconds or run.cpu_seconds


def tuned_table(study: Study, runs: Iterable[StudyRun]) -> str:
    """Each cell with the shared recipe beside the same cell with tuned settings; '' if nothing was tuned."""
    cells: dict[tuple, dict[str, list[StudyRun]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        cells[(*run.levels.values(), run.metric)][run.mode].append(run)
    rows = []
    for cell, modes in cells.items():
        if modes.keys() >= TITLES.keys():
            tuned = ', '.join(f'{path.rpartition(".")[2]} {value:g}' for path, value in modes[BEST][0].tuned.items())
            rows.append([*cell, *(interval([run.value for run in modes[mode]]).text() for mode in TITLES), tuned])
    header = [*study.factors, 'metric', *(title.lower() for title in TITLES.values()), 'tuned']
    return align(rows, header, set(range(len(header) - 3)), markdown=True) if rows else ''


def draw_costs(block: Block, path: Path) -> None:
    """Draw all levels with their 95 % intervals, best first, and beside it the Pareto front for each kind of cost."""
    label = f'{block.metric} ({"higher" if block.sign > 0 else "lower"} is better)'
    names = list(block.members)
    figure = Figure(figsize=(4.5 * (1 + len(block.costs)), max(4.5, 0.2 * len(names) + 1)), layout='constrained')
    levels, *panels = figure.subplots(1, 1 + len(block.costs))
    means = {name: item.mean for name, item in block.intervals.items()}
    errors = {name: 0 if item.number < 2 else item.high - item.mean for name, item in block.intervals.items()}
    left, styles = cycle(STYLES), {}
    for name in names:
        coloured = len(names) <= MAX_COLOURED or any(front[name] for front in block.fronts.values())
        styles[name] = dict(zip(('fmt', 'color'), next(left) if coloured else GREY))
    order = sorted(names, key=means.__getitem__, reverse=block.sign < 0)
    for row, name in enumerate(order):
        levels.errorbar(means[name], row, xerr=errors[name], capsize=3, **styles[name])
    levels.set_yticks(range(len(order)), order)
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
