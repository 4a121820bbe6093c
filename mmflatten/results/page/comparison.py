"""Comparison of runs: curves, figures, metrics, costs and configs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any, NamedTuple

from mmflatten.results.analysis import ResultTable
from mmflatten.results.curves import NOT_METRICS, curve, is_training, is_undefined
from mmflatten.results.figures import Plot
from mmflatten.results.work_dir import TrainedRun

NO_CURVES = ('step', 'iter', 'epoch')
MAIN = (
    'loss',
    'accuracy/top1',
    'coco/bbox_mAP',
    'coco/segm_mAP',
    'coco_panoptic/PQ',
    'mIoU',
    'stereo/epe',
    'stereo/d1',
    'lr',
)
# Other costs have three digits.
COST_FORMATS = {
    'training iterations': ',d',
    'training time (min)': '.1f',
    'time per iteration (s)': '.3f',
    'GPU memory in training (MiB)': ',d',
}
NOT_COMPARED = ('work_dir',)
PERCENT = ' (%)'
PERCENTAGES = re.compile(
    r'(accuracy|single-label|coco_panoptic)/|[am](Acc|IoU|Dice|Fscore|Precision|Recall)$|stereo/(bad|d1)'
)


class Chart(NamedTuple):
    """A figure with its title; `run` is the name of its run, or '' for all runs."""

    title: str
    plot: Plot
    run: str = ''


def curves(runs: Sequence[TrainedRun]) -> tuple[list[Chart], list[Chart]]:
    """Return the charts of the main keys of the logs and those of the other keys, one line for each
    run.
    """
    records = {run.name: run.records for run in runs}
    charts = {}
    for key in _logged_keys(runs):
        chart = Chart(key, curve(key, records))
        if any(len(x) for x, _ in chart.plot.lines.values()):
            charts[key] = chart
    main = [charts[key] for key in MAIN if key in charts]
    others = [charts[key] for key in charts if key not in MAIN]
    return main, others


def _logged_keys(runs: Sequence[TrainedRun]) -> list[str]:
    """Return the keys of all records, in the order of their first use."""
    keys: dict[str, None] = {}
    for run in runs:
        for record in run.records:
            keys |= dict.fromkeys(record)
    return [key for key in keys if key not in NO_CURVES]


def analysis_charts(runs: Sequence[TrainedRun]) -> list[list[Chart]]:
    """Return the figures of the analyses: a list for each figure, with a chart for each run that
    has it.
    """
    charts: dict[str, list[Chart]] = {}
    for run in runs:
        if run.analysis is None:
            continue
        for name, plot in run.analysis.figures.items():
            chart = Chart(
                title=name.replace('_', ' ').capitalize(),
                plot=plot,
                run=run.name if len(runs) > 1 else '',
            )
            charts.setdefault(name, []).append(chart)
    return [*charts.values()]


def summary_table(runs: Sequence[TrainedRun]) -> ResultTable:
    """Tabulate all metrics and costs, one column for each run, with the difference of two runs."""
    rows = []
    for fact in _facts(runs):
        row = [fact.name]
        for value in fact.values:
            row.append(None if value is None else f'{value:{fact.form}}')
        if len(runs) == 2:
            row.append(_difference(fact))
        rows.append(tuple(row))
    header = ['metric', *(run.name for run in runs)]
    if len(runs) == 2:
        header.append('difference')
    return ResultTable(
        title='Metrics of the test, or of the last validation without a test; cost and training',
        header=tuple(header),
        rows=rows,
    )


class _Fact(NamedTuple):
    """A metric or cost: its name, format and value of each run, None if it is unknown."""

    name: str
    form: str
    values: list[float | None]

    @property
    def is_known(self) -> bool:
        return any(value is not None for value in self.values)


def _difference(fact: _Fact) -> str | None:
    """Format the difference of two runs with its sign."""
    first, second = fact.values
    if first is None or second is None:
        return None
    if fact.form.endswith('d'):
        return f'{second - first:+{fact.form}}'
    return f'{second - first:+z{fact.form}}'  # z: a difference that is rounded to 0 is not -0


def _facts(runs: Sequence[TrainedRun]) -> list[_Fact]:
    """Return all metrics and costs that at least one run has."""
    metrics = [_metrics(run) for run in runs]
    names: dict[str, None] = {}
    for values in metrics:
        names |= dict.fromkeys(values)
    facts = []
    for key in names:
        unit = PERCENT if PERCENTAGES.match(key) else ''
        facts.append(_Fact(key + unit, '.3f', [values.get(key) for values in metrics]))

    costs = [_costs(run) for run in runs]
    for name in costs[0]:
        values = [cost[name] for cost in costs]
        facts.append(_Fact(name, COST_FORMATS.get(name) or _three_digits(values), values))
    return [fact for fact in facts if fact.is_known]


def _metrics(run: TrainedRun) -> dict[str, float]:
    """Return the metrics of the test, or those of the last validation without a test, except
    undefined ones.
    """
    metrics = run.results.origin.get('metrics') if run.results else None
    if not metrics:
        validations = [record for record in run.records if not is_training(record)]
        metrics = validations[-1] if validations else {}
    found = {}
    for key, value in metrics.items():
        is_number = isinstance(value, (int, float))
        if is_number and key not in NOT_METRICS and not is_undefined(key, value):
            found[key] = value
    return found


def _costs(run: TrainedRun) -> dict[str, float | None]:
    cost = run.cost
    return {
        'parameters (M)': cost and cost.params / 1e6,
        'multiply-accumulates (G)': cost and cost.counts.macs / 1e9,
        'training iterations': run.iterations,
        'training time (min)': run.wall_time / 60 or None,
        'time per iteration (s)': _reduce_logged(run, 'time', median),
        'GPU memory in training (MiB)': _reduce_logged(run, 'memory', max),
    }


def _reduce_logged(
    run: TrainedRun, key: str, reduce: Callable[[list[float]], float]
) -> float | None:
    """Return the median or maximum of a key in the training's log; None if it is not logged."""
    records = [record for record in run.records if is_training(record)]
    values = [record[key] for record in records if key in record]
    return reduce(values) if values else None


def _three_digits(values: Sequence[float | None]) -> str:
    """Return a format with at least two decimals, and three digits of the smallest value."""
    smallest = min((value for value in values if value), default=1.0)
    decimals = max(2, 2 - math.floor(math.log10(smallest)))
    return f'.{decimals}f'


def config_difference(runs: Sequence[TrainedRun]) -> ResultTable:
    """Tabulate the fields in which the configs differ, except `work_dir`."""
    known = [run for run in runs if run.config is not None]
    columns = [dict(_fields(run.config.to_dict())) for run in known]
    keys: dict[str, None] = {}
    for column in columns:
        keys |= dict.fromkeys(column)
    rows = []
    for key in keys:
        values = [column.get(key) for column in columns]
        if key not in NOT_COMPARED and len(set(values)) > 1:
            rows.append((key, *values))
    return ResultTable(
        title='Fields of the configs that differ',
        header=('field', *(run.name for run in known)),
        rows=rows,
    )


def _fields(value: Any, name: str = '') -> Iterator[tuple[str, str]]:
    """Yield dotted names and `repr` of the values of a config's fields; lists of dictionaries are
    numbered.
    """
    if isinstance(value, dict) and value:
        items = value.items()
    elif isinstance(value, (list, tuple)) and any(isinstance(item, dict) for item in value):
        items = enumerate(value)
    else:
        yield name, repr(value)
        return
    for key, item in items:
        yield from _fields(item, f'{name}.{key}' if name else str(key))
