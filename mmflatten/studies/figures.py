"""Figures of a study: metric against cost with the Pareto front, and average ranks with what they do not separate."""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import scikit_posthocs
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mmflatten.studies.statistics import ALPHA, Interval, Ranks, pareto


def draw_costs(names: Sequence[str], intervals: Sequence[Interval], costs: dict[str, Sequence[float]], metric: str,
               higher: bool, path: Path) -> None:
    """One panel for each kind of cost; bars are 95 % intervals, the line joins what nothing else beats."""
    figure = Figure(figsize=(5.5 * len(costs), 4.5), layout='constrained')
    for axes, (label, values) in zip(figure.subplots(1, len(costs), squeeze=False)[0], costs.items()):
        _draw_panel(axes, names, intervals, values, higher)
        axes.set(xlabel=label, ylabel=f'{metric} ({"higher" if higher else "lower"} is better)')
    figure.savefig(path, dpi=100)


def _draw_panel(axes: Axes, names: Sequence[str], intervals: Sequence[Interval], costs: Sequence[float],
                higher: bool) -> None:
    means = [item.mean for item in intervals]
    front = pareto(costs, [mean if higher else -mean for mean in means])
    line = sorted((cost, mean) for cost, mean, best in zip(costs, means, front) if best)
    axes.plot(*zip(*line), color='0.7', zorder=1)
    for name, item, cost, best in zip(names, intervals, costs, front):
        half = 0 if item.number < 2 else item.high - item.mean
        axes.errorbar(cost, item.mean, half, fmt='o', color='C0' if best else '0.5', capsize=3)
        axes.annotate(name, (cost, item.mean), (4, 4), textcoords='offset points', fontsize='small')
    axes.margins(x=0.25)


def draw_ranks(ranks: Ranks, path: Path) -> None:
    """Critical-difference diagram: a bar joins levels that Nemenyi's test does not separate."""
    figure = Figure(figsize=(8, 1.2 + 0.25 * len(ranks.average)), layout='constrained')
    axes = figure.subplots()
    scikit_posthocs.critical_difference_diagram(ranks.average, ranks.pairs, alpha=ALPHA, ax=axes)
    axes.set_title(f'average rank over {ranks.blocks} tasks, 1 is the best', fontsize='medium')
    figure.savefig(path, dpi=100)
