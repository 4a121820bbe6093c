"""Runs side by side: figures, environments and configs."""
from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from mmflatten.report.collect import Run
from mmflatten.report.figures import MAIN
from mmflatten.results.analysis import Table
from mmflatten.results.curves import is_training
from mmflatten.results.runs import NO_METRICS

NOT_COMPARED = ('work_dir', )  # the runs are these folders
PERCENT = ' (%)'
PERCENTAGES = re.compile(r'(accuracy|single-label)/|[am](Acc|IoU|Dice|Fscore|Precision|Recall)$|stereo/(bad|d1)')


def metrics_of(run: Run) -> dict[str, float]:
    """Metrics of the test, else those of the last validation; without what could not be measured."""
    validations = [record for record in run.records if not is_training(record)]
    found = (run.results.origin.get('metrics') if run.results else None) or (validations[-1] if validations else {})
    return {key: value for key, value in found.items() if key not in NO_METRICS and isinstance(value, (int, float))
            and not (value == -1 and key.startswith('coco/'))}


def facts(runs: Sequence[Run]) -> list[tuple[str, str, list[float | None]]]:
    """Name, format and the runs' values of everything that can be compared."""
    metrics = [metrics_of(run) for run in runs]
    keys = dict.fromkeys(key for found in metrics for key in found)
    rows = [(key + PERCENT * bool(PERCENTAGES.match(key)), '.3f', [found.get(key) for found in metrics])
            for key in keys]
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


def tiles(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Name and text of the figures that matter most, of one run."""
    main = (*MAIN, 'parameters (M)', 'multiply-accumulates (G)', 'latency (ms)', 'training time (min)')
    return [(name, _text(values[0], form)) for name, form, values in facts(runs) if name.removesuffix(PERCENT) in main]


def summary_table(runs: Sequence[Run]) -> Table:
    """A row for each figure, a column for each run, and of two runs the difference."""
    rows = []
    for name, form, values in facts(runs):
        rows.append((name, *(_text(value, form) for value in values)))
        if len(runs) == 2:
            rows[-1] += ('–' if None in values else f'{values[1] - values[0]:+{form}}', )
    return Table('Metrics of the test, or of the last validation where there was no test; cost and training',
                 ('figure', *(run.name for run in runs), *(['difference'] if len(runs) == 2 else [])), rows)


def _text(value: float | None, form: str) -> str:
    return '–' if value is None else f'{value:{form}}'


def environment_table(runs: Sequence[Run]) -> Table:
    """What the logs of the trainings say of machines and libraries."""
    keys = dict.fromkeys(key for run in runs for key in run.environment)
    return Table('Where the trainings ran, as their logs say', ('', *(run.name for run in runs)),
                 [(key, *(run.environment.get(key) for run in runs)) for key in keys])


def config_difference(runs: Sequence[Run]) -> Table:
    """The fields in which configs differ, with each run's value; `work_dir` is left out."""
    known = [run for run in runs if run.config is not None]
    flat = [dict(_fields(run.config.to_dict())) for run in known]
    keys = dict.fromkeys(key for fields in flat for key in fields)
    rows = [(key, *(fields.get(key) for fields in flat)) for key in keys
            if len({fields.get(key) for fields in flat}) > 1 and key not in NOT_COMPARED]
    return Table('Fields of the configs that differ', ('field', *(run.name for run in known)), rows)


def _fields(value: Any, name: str = '') -> Iterator[tuple[str, str]]:
    """Dotted names of a config's fields and their values as Python writes them; lists of dictionaries by number."""
    if isinstance(value, dict) and value:
        items = value.items()
    elif isinstance(value, (list, tuple)) and any(isinstance(item, dict) for item in value):
        items = enumerate(value)
    else:
        yield name, repr(value)
        return
    for key, item in items:
        yield from _fields(item, f'{name}.{key}' if name else str(key))


def config_text(run: Run) -> str:
    """The config as the training left it in the work dir."""
    return Path(run.config.filename).read_text(encoding='utf-8')
