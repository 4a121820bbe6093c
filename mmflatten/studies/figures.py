"""Figures of a study: metric over cost with the Pareto front, and a critical-difference diagram."""
from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, product
from pathlib import Path

import scikit_posthocs
from matplotlib.figure import Figure

from mmflatten.studies.statistics import ALPHA, Interval, Ranks, pareto

MAX_COLOURED = 8  # with more levels, only those on a Pareto front are coloured
GREY = '0.7'


def draw_costs(names: Sequence[str], intervals: Sequence[Interval], costs: dict[str, Sequence[float]], metric: str,
               higher: bool, path: Path) -> None:
    """Draw all levels with their 95 % intervals, best first, and beside it the Pareto front for each kind of cost."""
    label = f'{metric} ({"higher" if higher else "lower"} is better)'
    figure = Figure(figsize=(4.5 * (1 + len(costs)), max(4.5, 0.2 * len(names) + 1)), layout='constrained')
    levels, *panels = figure.subplots(1, 1 + len(costs))
    means = [item.mean for item in intervals]
    errors = [0 if item.number < 2 else item.high - item.mean for item in intervals]
    fronts = [pareto(values, means if higher else [-mean for mean in means]) for values in costs.values()]
    styles = _styles([len(names) <= MAX_COLOURED or any(best) for best in zip(*fronts)])
    order = sorted(range(len(names)), key=means.__getitem__, reverse=not higher)
    for row, level in enumerate(order):
        levels.errorbar(means[level], row, xerr=errors[level], capsize=3, **styles[level])
    levels.set_yticks(range(len(order)), [names[level] for level in order])
    levels.grid(axis='x', color='0.9')
    levels.set_xlabel(label)
    for axes, front, (cost, values) in zip(panels, fronts, costs.items()):
        axes.plot(*zip(*sorted((value, mean) for value, mean, best in zip(values, means, front) if best)),
                  color='0.4', zorder=1)
        for value, mean, error, style in zip(values, means, errors, styles):
            axes.errorbar(value, mean, error, capsize=3, zorder=2 if style['color'] == GREY else 3, **style)
        axes.margins(x=0.1)
        axes.set(xlabel=cost, ylabel=label)
    figure.savefig(path, dpi=100)


def _styles(coloured: Sequence[bool]) -> list[dict[str, str]]:
    styles = cycle(product('os^D', [f'C{number}' for number in range(10) if number != 7]))  # C7 is grey
    return [dict(zip(('fmt', 'color'), next(styles) if item else ('o', GREY))) for item in coloured]


def draw_ranks(ranks: Ranks, path: Path) -> None:
    """Draw a critical-difference diagram: a bar joins levels that Nemenyi's test does not separate."""
    figure = Figure(figsize=(8, 1.2 + 0.25 * len(ranks.average)), layout='constrained')
    axes = figure.subplots()
    scikit_posthocs.critical_difference_diagram(ranks.average, ranks.pairs, alpha=ALPHA, ax=axes)
    axes.set_title(f'average rank over {ranks.blocks} tasks, 1 is the best', fontsize='medium')
    figure.savefig(path, dpi=100)
