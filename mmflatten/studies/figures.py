"""Figures of a study: metric against cost with the Pareto front, and average ranks with what they do not separate."""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import scikit_posthocs
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mmflatten.studies.statistics import ALPHA, Interval, Ranks, pareto

FEW = 8  # levels whose names do not cover each other


def draw_costs(names: Sequence[str], intervals: Sequence[Interval], costs: dict[str, Sequence[float]], metric: str,
               higher: bool, path: Path) -> None:
    """All levels with their 95 % intervals, best first, and a panel for each kind of cost.

    In those a line joins what nothing else beats; only that is named where there are many levels.
    """
    label = f'{metric} ({"higher" if higher else "lower"} is better)'
    figure = Figure(figsize=(4.5 * (1 + len(costs)), max(4.5, 0.2 * len(names) + 1)), layout='constrained')
    panels = figure.subplots(1, 1 + len(costs))
    _draw_levels(panels[0], names, intervals, higher)
    panels[0].set_xlabel(label)
    for axes, (cost, values) in zip(panels[1:], costs.items()):
        _draw_panel(axes, names, intervals, values, higher)
        axes.set(xlabel=cost, ylabel=label)
    figure.savefig(path, dpi=100)


def _draw_levels(axes: Axes, names: Sequence[str], intervals: Sequence[Interval], higher: bool) -> None:
    order = sorted(range(len(names)), key=lambda level: intervals[level].mean, reverse=not higher)
    axes.errorbar([intervals[level].mean for level in order], range(len(order)),
                  xerr=[_half(intervals[level]) for level in order], fmt='o', color='C0', capsize=3)
    axes.set_yticks(range(len(order)), [names[level] for level in order])
    axes.grid(axis='x', color='0.9')


def _draw_panel(axes: Axes, names: Sequence[str], intervals: Sequence[Interval], costs: Sequence[float],
                higher: bool) -> None:
    means = [item.mean for item in intervals]
    front = pareto(costs, [mean if higher else -mean for mean in means])
    line = sorted((cost, mean) for cost, mean, best in zip(costs, means, front) if best)
    axes.plot(*zip(*line), color='0.7', zorder=1)
    for name, item, cost, best in zip(names, intervals, costs, front):
        axes.errorbar(cost, item.mean, _half(item), fmt='o', color='C0' if best else '0.6', capsize=3)
        if best or len(names) <= FEW:
            axes.annotate(name, (cost, item.mean), (4, 4), textcoords='offset points', fontsize='small')
    axes.margins(x=0.25)


def _half(item: Interval) -> float:
    return 0 if item.number < 2 else item.high - item.mean


def draw_ranks(ranks: Ranks, path: Path) -> None:
    """Critical-difference diagram: a bar joins levels that Nemenyi's test does not separate."""
    figure = Figure(figsize=(8, 1.2 + 0.25 * len(ranks.average)), layout='constrained')
    axes = figure.subplots()
    scikit_posthocs.critical_difference_diagram(ranks.average, ranks.pairs, alpha=ALPHA, ax=axes)
    axes.set_title(f'average rank over {ranks.blocks} tasks, 1 is the best', fontsize='medium')
    figure.savefig(path, dpi=100)
