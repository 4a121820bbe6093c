"""Trainings side by side: the metrics of their last validation, from the logs in their work dirs."""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from mmflatten.analysis.text_table import align
from mmflatten.visualization.curves import read_scalars

NO_METRICS = {'step', 'time', 'data_time', 'epoch', 'iter', 'lr', 'memory', 'grad_norm'}


def read_run(work_dir: str | Path) -> dict[str, float]:
    """The newest training in a work dir: the metrics of its last validation, when that was, iterations and their time.

    A validation is dated by the epoch, or by the iteration where the training counts those; the time of an iteration is
    the median over the log's records.

    Raises:
        FileNotFoundError: the work dir holds no log.
        ValueError: the log holds no training or no validation.
    """
    records = read_scalars(work_dir)
    training = [record for record in records if 'loss' in record]
    validations = [record for record in records if record.keys() - NO_METRICS and 'loss' not in record]
    if not training or not validations:
        missing = 'training' if not training else 'validation'
        raise ValueError(f'work dir ({work_dir}) has a log without any {missing}; nothing can be compared')
    metrics = {key: value for key, value in validations[-1].items() if key not in NO_METRICS}
    return {**metrics, 'validated after': validations[-1]['step'],
            'iterations': training[-1].get('iter', training[-1]['step']),
            's per iteration': median(record['time'] for record in training)}


def render_comparison(work_dirs: Sequence[str | Path]) -> str:
    """A row for each figure that all trainings have, a column for each training, and of two the difference."""
    runs = [read_run(work_dir) for work_dir in work_dirs]
    header = ['', *(Path(work_dir).resolve().name for work_dir in work_dirs)]
    rows = []
    for key in (key for key in runs[0] if all(key in run for run in runs)):
        rows.append([key, *(f'{run[key]:.4g}' if isinstance(run[key], float) else str(run[key]) for run in runs)])
        if len(runs) == 2:
            rows[-1].append(f'{runs[1][key] - runs[0][key]:+.4g}')
    return align(rows, header + ['difference'] * (len(runs) == 2), {0})
