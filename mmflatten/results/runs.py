"""Comparison of trainings by the metrics of their last validation."""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from mmflatten.results.curves import NOT_METRICS, is_training, read_scalars
from mmflatten.text_table import align


def read_run(work_dir: str | Path) -> dict[str, float]:
    """Return the metrics of the last validation, its epoch or iteration, and the number and time of iterations.

    The time of an iteration is the median over the records of the log.

    Raises:
        FileNotFoundError: the work dir has no log.
        ValueError: the log has no validation.
    """
    records = read_scalars(work_dir)
    training = [record for record in records if is_training(record)]
    validations = [record for record in records if record.keys() - NOT_METRICS and not is_training(record)]
    if not validations:
        raise ValueError(f'work dir: the log of {work_dir} has no validation. Only validated runs can be compared.')
    metrics = {key: value for key, value in validations[-1].items() if key not in NOT_METRICS}
    return {**metrics, 'validated after': validations[-1]['step'],
            'iterations': training[-1].get('iter', training[-1]['step']),
            's per iteration': median(record['time'] for record in training)}


def render_comparison(work_dirs: Sequence[str | Path]) -> str:
    """Format the metrics that all trainings have: a column for each, and the difference of two trainings."""
    runs = [read_run(work_dir) for work_dir in work_dirs]
    header = ['', *(Path(work_dir).resolve().name for work_dir in work_dirs)]
    if len(runs) == 2:
        header.append('difference')
    rows = []
    for key in (key for key in runs[0] if all(key in run for run in runs)):
        rows.append([key, *(f'{run[key]:.4g}' if isinstance(run[key], float) else str(run[key]) for run in runs)])
        if len(runs) == 2:
            rows[-1].append(f'{runs[1][key] - runs[0][key]:+.4g}')
    return align(rows, header, {0})
