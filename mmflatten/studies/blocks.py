"""Tables of a report: one block for each metric and combination of the factors after the first."""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from statistics import mean

import pandas as pd

from mmflatten.studies.claims import judge, seed_means
from mmflatten.studies.folder import Result
from mmflatten.studies.grid import BEST, GRID
from mmflatten.studies.statistics import Interval, Ranks, compare, holm, interval, pareto, rank
from mmflatten.studies.study import Study, counted
from mmflatten.studies.tuning import sign, signed
from mmflatten.text_table import align

MACS = 'multiply-accumulates of an image (M)'
TIMES = ['seconds', 'image', 'images/s']
TITLES = {GRID: 'One recipe for all', BEST: 'Each at its best'}


@dataclass
class Block:
    """Results of one metric that differ in the level of the first factor and in the seed."""

    study: Study
    name: str
    metric: str
    results: Sequence[Result]

    @cached_property
    def members(self) -> dict[str, list[Result]]:
        """Level of the first factor -> its results."""
        members: dict[str, list[Result]] = defaultdict(list)
        for result in self.results:
            members[next(iter(result.levels.values()), self.study.name)].append(result)
        return members

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        return {name: interval([run.value for run in runs]) for name, runs in self.members.items()}

    @property
    def sign(self) -> int:
        return sign(self.study, self.metric)

    @cached_property
    def devices(self) -> list[str]:
        """Devices on which the times were measured. Times on different devices are not compared."""
        return sorted({run.machine['gpu'] if run.gpu_seconds else
                       f'{run.machine["processor"]}, {counted(run.machine["threads"], "thread")}'
                       for run in self.results})

    def costs(self) -> dict[str, list[float]]:
        """Kind of cost -> cost of each level."""
        costs = {MACS: [runs[0].flops / 1e6 for runs in self.members.values()]}
        if len(self.devices) == 1:
            costs['CPU or GPU seconds per run'] = [mean(map(_seconds, runs)) for runs in self.members.values()]
        return costs

    def table(self) -> str:
        """A row for each level, best mean first, each compared with the level that the study file lists first."""
        factor, timed = next(iter(self.study.factors), ''), len(self.devices) == 1
        order = sorted(self.members, key=lambda name: self.sign * self.intervals[name].mean, reverse=True)
        reference = next((name for name in self.study.factors.get(factor, ()) if name in self.members), order[0])
        others = [name for name in order if name != reference]
        values = seed_means(self.study, self.results, factor) if factor else {}
        pairs = dict(zip(others, holm([compare(name, reference, values) for name in others])))
        front = dict(zip(self.members, pareto(self.costs()[MACS], [
            self.sign * item.mean for item in self.intervals.values()])))
        rows = []
        for name in order:
            pair, runs = pairs.get(name), self.members[name]
            compared = ['', '', 'the reference'] if pair is None else [
                format_interval(pair.difference, self.sign), format_p(pair.p_holm), pair.verdict]
            memory = [run.peak_memory for run in runs if run.peak_memory]
            rows.append([name, str(self.intervals[name].number), format_interval(self.intervals[name]), *compared,
                         f'{runs[0].params / 1e6:.3f}', f'{runs[0].flops / 1e6:.1f}', *(_times(runs) if timed else []),
                         f'{mean(memory) / 2**20:.0f}' if memory else '',
                         ', '.join(f'{value:g}' for value in (runs[0].tuned or {}).values()),
                         'yes' if front[name] else ''])
        header = [factor, 'seeds', self.metric, f'to {reference}', 'p', 'verdict', 'params (M)', 'MACs (M)',
                  *(TIMES if timed else []), 'MiB', 'tuned', 'Pareto']
        return align(rows, header, {0, 5}, markdown=True)


def blocks_of(study: Study, results: Iterable[Result]) -> list[Block]:
    """Group finished results of one mode into blocks."""
    groups: dict[tuple, list[Result]] = defaultdict(list)
    for result in results:
        groups[(result.metric, *list(result.levels.items())[1:])].append(result)
    return [Block(study, ', '.join(f'{factor} {level}' for factor, level in levels) or study.name, metric, members)
            for (metric, *levels), members in groups.items()]


def _seconds(run: Result) -> float:
    """GPU time if there is one, else CPU time, which depends less on other processes than wall time."""
    return run.gpu_seconds or run.cpu_seconds


def _times(runs: Sequence[Result]) -> list[str]:
    size = next(iter(runs[0].throughput))
    speeds = [run.throughput[size] for run in runs if size in run.throughput]
    return [f'{mean(map(_seconds, runs)):.0f}', size, f'{mean(speeds):.0f}']


def format_interval(item: Interval, sign: int = 1) -> str:
    low, high = sorted((sign * item.low, sign * item.high))
    return f'{sign * item.mean:.4g}' + (f' [{low:.4g}, {high:.4g}]' if item.number > 1 else '')


def format_p(value: float) -> str:
    if isnan(value):
        return ''
    return f'{value:.3f}' if value >= .0005 else '<0.001'


def ranks_of(study: Study, results: Iterable[Result]) -> Ranks | None:
    """Rank the levels of the first factor over the combinations of the others."""
    if not study.factors:
        return None
    rows = []
    for result in results:
        level, *others = result.levels.values()
        rows.append(dict(level=level, value=signed(study, result), block=str([result.metric, *others])))
    return rank(pd.DataFrame(rows).pivot_table(index='block', columns='level', values='value'))


def claim_rows(study: Study, results: Sequence[Result], mode: str) -> list[list[str]]:
    """A row for every pair of each claim; the first of them names the claim."""
    rows = []
    for verdict in judge(study, results, mode):
        where = ', '.join(f'{factor} {"/".join(levels)}' for factor, levels in verdict.claim.where.items()) or 'all'
        tuned = ', tuned' if mode == BEST else ''
        first = [verdict.claim.text, f'{study.name}: {where}{tuned}', verdict.claim.source, f'**{verdict.text}**']
        for pair in verdict.pairs:
            rows.append([*first, f'{pair.first} - {pair.second}', format_interval(pair.difference),
                         f'{pair.effect:.2g}', format_p(pair.p_holm), format_p(pair.p_wilcoxon),
                         str(pair.difference.number)])
            first = [''] * len(first)
    return rows


def tuned_table(study: Study, results: Iterable[Result]) -> str:
    """Each cell with the shared recipe beside the same cell with tuned settings; '' if nothing was tuned."""
    cells: dict[tuple, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        cells[(*result.levels.values(), result.metric)][result.mode].append(result)
    rows = []
    for cell, modes in cells.items():
        if modes.keys() >= TITLES.keys():
            tuned = ', '.join(f'{path.rpartition(".")[2]} {value:g}' for path, value in modes[BEST][0].tuned.items())
            rows.append([*cell, *(format_interval(interval([run.value for run in modes[mode]])) for mode in TITLES),
                         tuned])
    header = [*study.factors, 'metric', *(title.lower() for title in TITLES.values()), 'tuned']
    return align(rows, header, set(range(len(header) - 3)), markdown=True) if rows else ''
