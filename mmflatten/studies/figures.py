"""Figures of a study: metric against cost with the Pareto front, and average ranks with what they do not separate."""
from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, product
from pathlib import Path

import scikit_posthocs
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mmflatten.studies.statistics import ALPHA, Interval, Ranks, pareto

FEW = 8  # levels that all have a colour
GREY = '0.7'


def draw_costs(names: Sequence[str], intervals: Sequence[Interval], costs: dict[str, Sequence[float]], metric: str,
               higher: bool, path: Path) -> None:
    """All levels with their 95 % intervals, best first, and in their colours a panel for each kind of cost.

    There a line joins what nothing else beats; where there are many levels, only those on a line have a colour.
    """
    label = f'{metric} ({"higher" if higher else "lower"} is better)'
    figure = Figure(figsize=(4.5 * (1 + len(costs)), max(4.5, 0.2 * len(names) + 1)), layout='constrained')
    panels = figure.subplots(1, 1 + len(costs))
    fronts = [pareto(values, [item.mean if higher else -item.mean for item in intervals]) for values in costs.values()]
    looks = _looks([len(names) <= FEW or any(best) for best in zip(*fronts)])
    _draw_levels(panels[0], names, intervals, looks, higher)
    panels[0].set_xlabel(label)
    for axes, front, (cost, values) in zip(panels[1:], fronts, costs.items()):
        _draw_panel(axes, intervals, values, front, looks)
        axes.set(xlabel=cost, ylabel=label)
    figure.savefig(path, dpi=100)


def _looks(wanted: Sequence[bool]) -> list[dict]:
    """Colour and marker of each level; those that are not wanted are grey."""
    looks = cycle(product('os^D', [f'C{number}' for number in range(10) if number != 7]))  # C7 is grey
    return [dict(zip(('fmt', 'color'), next(looks) if item else ('o', GREY))) for item in wanted]


def _draw_levels(axes: Axes, names: Sequence[str], intervals: Sequence[Interval], looks: Sequence[dict],
                 higher: bool) -> None:
    order = sorted(range(len(names)), key=lambda level: intervals[level].mean, reverse=not higher)
    for row, level in enumerate(order):
        axes.errorbar(intervals[level].mean, row, xerr=_half(intervals[level]), capsize=3, **looks[level])
    axes.set_yticks(range(len(order)), [names[level] for level in order])
    axes.grid(axis='x', color='0.9')


def _draw_panel(axes: Axes, intervals: Sequence[Interval], costs: Sequence[float], front: Sequence[bool],
                looks: Sequence[dict]) -> None:
    line = sorted((cost, item.mean) for cost, item, best in zip(costs, intervals, front) if best)
    axes.plot(*zip(*line), color='0.4', zorder=1)
    for item, cost, look in zip(intervals, costs, looks):
        axes.errorbar(cost, item.mean, _half(item), capsize=3, zorder=2 + (look['color'] != GREY), **look)
    axes.margins(x=0.1)


def _half(item: Interval) -> float:
    return 0 if item.number < 2 else item.high - item.mean


def draw_ranks(ranks: Ranks, path: Path) -> None:
    """Critical-difference diagram: a bar joins levels that Nemenyi's test does not separate."""
    figure = Figure(figsize=(8, 1.2 + 0.25 * len(ranks.average)), layout='constrained')
    axes = figure.subplots()
    scikit_posthocs.critical_difference_diagram(ranks.average, ranks.pairs, alpha=ALPHA, ax=axes)
    axes.set_title(f'average rank over {ranks.blocks} tasks, 1 is the best', fontsize='medium')
    figure.savefig(path, dpi=100)
