"""Comparison of runs: curves, figures, metrics, costs and configs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
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
    'mIoU',
    'stereo/epe',
    'stereo/d1',
    'lr',
)
NOT_COMPARED = ('work_dir',)
PERCENT = ' (%)'
PERCENTAGES = re.compile(
    r'(accuracy|single-label)/|[am](Acc|IoU|Dice|Fscore|Precision|Recall)$|stereo/(bad|d1)'
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
    keys = dict.fromkeys(
        key for run in runs for record in run.records for key in record if key not in NO_CURVES
    )
    charts = {key: Chart(key, curve(key, records)) for key in keys}
    charts = {
        key: chart
        for key, chart in charts.items()
        if any(len(x) for x, _ in chart.plot.lines.values())
    }
    return [charts[key] for key in MAIN if key in charts], [
        charts[key] for key in charts if key not in MAIN
    ]


def analysis_charts(runs: Sequence[TrainedRun]) -> list[list[Chart]]:
    """Return the figures of the analyses: a list for each figure, with a chart for each run that
    has it.
    """
    analyzed = [run for run in runs if run.analysis is not None]
    names = dict.fromkeys(name for run in analyzed for name in run.analysis.figures)
    return [
        [
            Chart(
                name.replace('_', ' ').capitalize(),
                run.analysis.figures[name],
                run.name if len(runs) > 1 else '',
            )
            for run in analyzed
            if name in run.analysis.figures
        ]
        for name in names
    ]


def summary_table(runs: Sequence[TrainedRun]) -> ResultTable:
    """Tabulate all metrics and costs, one column for each run, with the difference of two runs."""
    rows = []
    for name, form, values in _facts(runs):
        row = [name, *(None if value is None else f'{value:{form}}' for value in values)]
        if len(runs) == 2:
            row.append(None if None in values else _signed(values[1] - values[0], form))
        rows.append(tuple(row))
    difference = ['difference'] if len(runs) == 2 else []
    return ResultTable(
        'Metrics of the test, or of the last validation without a test; cost and training',
        ('metric', *(run.name for run in runs), *difference),
        rows,
    )


def _signed(value: float, form: str) -> str:
    """Format a difference with its sign. One that is rounded to 0 is not -0."""
    return f'{value:+{form}}' if form.endswith('d') else f'{value:+z{form}}'


def _facts(runs: Sequence[TrainedRun]) -> list[tuple[str, str, list[float | None]]]:
    """Return name, format and values of all metrics and costs, one value for each run."""
    metrics, costs = [_metrics(run) for run in runs], [run.cost for run in runs]
    rows = [
        (
            key + PERCENT if PERCENTAGES.match(key) else key,
            '.3f',
            [values.get(key) for values in metrics],
        )
        for key in dict.fromkeys(key for values in metrics for key in values)
    ]
    training = [[record for record in run.records if is_training(record)] for run in runs]

    def logged(key: str, reduce: Any) -> list[float | None]:
        found = [[record[key] for record in records if key in record] for records in training]
        return [reduce(values) if values else None for values in found]

    rows += [
        _with_digits('parameters (M)', [cost and cost.params / 1e6 for cost in costs]),
        _with_digits(
            'multiply-accumulates (G)', [cost and cost.counts.macs / 1e9 for cost in costs]
        ),
        ('training iterations', ',d', [run.iterations for run in runs]),
        ('training time (min)', '.1f', [run.wall_time / 60 or None for run in runs]),
        ('time per iteration (s)', '.3f', logged('time', median)),
        ('GPU memory in training (MiB)', ',d', logged('memory', max)),
    ]
    return [row for row in rows if any(value is not None for value in row[2])]


def _with_digits(name: str, values: list[float | None]) -> tuple[str, str, list[float | None]]:
    """Return a row of `_facts` with at least two decimals, and three digits of the smallest
    value.
    """
    smallest = min((value for value in values if value), default=1.0)
    decimals = max(2, 2 - math.floor(math.log10(smallest)))
    return name, f'.{decimals}f', values


def _metrics(run: TrainedRun) -> dict[str, float]:
    """Return the metrics of the test, or those of the last validation without a test, except
    undefined ones.
    """
    validations = [record for record in run.records if not is_training(record)]
    metrics = (run.results.origin.get('metrics') if run.results else None) or (validations or [{}])[
        -1
    ]
    return {
        key: value
        for key, value in metrics.items()
        if key not in NOT_METRICS
        and isinstance(value, (int, float))
        and not is_undefined(key, value)
    }


def config_difference(runs: Sequence[TrainedRun]) -> ResultTable:
    """Tabulate the fields in which the configs differ, except `work_dir`."""
    known = [run for run in runs if run.config is not None]
    columns = [dict(_fields(run.config.to_dict())) for run in known]
    keys = dict.fromkeys(key for column in columns for key in column if key not in NOT_COMPARED)
    rows = [(key, *(column.get(key) for column in columns)) for key in keys]
    return ResultTable(
        'Fields of the configs that differ',
        ('field', *(run.name for run in known)),
        [row for row in rows if len(set(row[1:])) > 1],
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
