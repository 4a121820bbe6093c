"""Comparison of runs: metrics, costs, environments and configs."""
from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from mmflatten.report.collect import TrainedRun
from mmflatten.report.figures import MAIN
from mmflatten.results.analysis import ResultTable
from mmflatten.results.curves import NOT_METRICS, is_training, is_undefined

NOT_COMPARED = ('work_dir', )
PERCENT = ' (%)'
PERCENTAGES = re.compile(r'(accuracy|single-label)/|[am](Acc|IoU|Dice|Fscore|Precision|Recall)$|stereo/(bad|d1)')


def metrics_of(run: TrainedRun) -> dict[str, float]:
    """Return the metrics of the test, or those of the last validation without a test, except undefined ones."""
    validations = [record for record in run.records if not is_training(record)]
    metrics = run.results.origin.get('metrics') if run.results else None
    if not metrics:
        metrics = validations[-1] if validations else {}
    return {key: value for key, value in metrics.items() if key not in NOT_METRICS and isinstance(value, (int, float))
            and not is_undefined(key, value)}


def facts(runs: Sequence[TrainedRun]) -> list[tuple[str, str, list[float | None]]]:
    """Return name, format and values of all metrics and costs, one value for each run."""
    metrics = [metrics_of(run) for run in runs]
    rows = [(key + PERCENT if PERCENTAGES.match(key) else key, '.3f', [values.get(key) for values in metrics])
            for key in dict.fromkeys(key for values in metrics for key in values)]
    costs = [run.cost for run in runs]
    training = [[record for record in run.records if is_training(record)] for run in runs]
    rows += [
        ('parameters (M)', '.2f', [cost and cost.params / 1e6 for cost in costs]),
        ('multiply-accumulates (G)', '.2f', [cost and cost.counts.macs / 1e9 for cost in costs]),
        ('latency (ms)', '.1f', [1e3 * median(run.seconds) if run.seconds else None for run in runs]),
        ('training iterations', ',d', [records[-1].get('iter', records[-1]['step']) if records else None
                                       for records in training]),
        ('training time (min)', '.1f', [run.wall_time / 60 or None for run in runs]),
        ('time per iteration (s)', '.3f', [_median(records, 'time') for records in training]),
        ('GPU memory in training (MiB)', ',d', [max((record['memory'] for record in records if 'memory' in record),
                                                   default=None) for records in training])]
    return [row for row in rows if any(value is not None for value in row[2])]


def _median(records: list[dict], key: str) -> float | None:
    values = [record[key] for record in records if key in record]
    return median(values) if values else None


def tiles(runs: Sequence[TrainedRun]) -> list[tuple[str, str]]:
    """Return name and text of the main metrics and costs."""
    main = (*MAIN, 'parameters (M)', 'multiply-accumulates (G)', 'latency (ms)', 'training time (min)')
    return [(name, _text(values[0], form)) for name, form, values in facts(runs) if name.removesuffix(PERCENT) in main]


def summary_table(runs: Sequence[TrainedRun]) -> ResultTable:
    """Tabulate all metrics and costs, one column for each run, with the difference of two runs."""
    rows = []
    for name, form, values in facts(runs):
        rows.append((name, *(_text(value, form) for value in values)))
        if len(runs) == 2:
            rows[-1] += ('–' if None in values else f'{values[1] - values[0]:+{form}}', )
    return ResultTable('Metrics of the test, or of the last validation without a test; cost and training',
                 ('metric', *(run.name for run in runs), *(['difference'] if len(runs) == 2 else [])), rows)


def _text(value: float | None, form: str) -> str:
    return '–' if value is None else f'{value:{form}}'


def environment_table(runs: Sequence[TrainedRun]) -> ResultTable:
    """Tabulate machines and libraries of the trainings, from their logs."""
    keys = dict.fromkeys(key for run in runs for key in run.environment)
    return ResultTable('Environment of the trainings, from their logs', ('', *(run.name for run in runs)),
                 [(key, *(run.environment.get(key) for run in runs)) for key in keys])


def config_difference(runs: Sequence[TrainedRun]) -> ResultTable:
    """Tabulate the fields in which the configs differ, except `work_dir`."""
    known = [run for run in runs if run.config is not None]
    flat = [dict(_fields(run.config.to_dict())) for run in known]
    keys = dict.fromkeys(key for fields in flat for key in fields)
    rows = [(key, *(fields.get(key) for fields in flat)) for key in keys
            if len({fields.get(key) for fields in flat}) > 1 and key not in NOT_COMPARED]
    return ResultTable('Fields of the configs that differ', ('field', *(run.name for run in known)), rows)


def _fields(value: Any, name: str = '') -> Iterator[tuple[str, str]]:
    """Yield dotted names and `repr` of the values of a config's fields; lists of dictionaries are numbered."""
    if isinstance(value, dict) and value:
        items = value.items()
    elif isinstance(value, (list, tuple)) and any(isinstance(item, dict) for item in value):
        items = enumerate(value)
    else:
        yield name, repr(value)
        return
    for key, item in items:
        yield from _fields(item, f'{name}.{key}' if name else str(key))


def config_text(run: TrainedRun) -> str:
    """Return the text of the config file in the work dir."""
    return Path(run.config.filename).read_text(encoding='utf-8')
