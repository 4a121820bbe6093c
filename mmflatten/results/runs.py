"""Trainings side by side: the metrics of their last validation, from the logs in their work dirs."""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from mmflatten.results.curves import is_training, read_scalars
from mmflatten.text_table import align

NO_METRICS = {'step', 'time', 'data_time', 'epoch', 'iter', 'lr', 'memory', 'grad_norm'}


def read_run(work_dir: str | Path) -> dict[str, float]:
    """A training: the metrics of its last validation, when that was, iterations and their time.

    A validation is dated by the epoch, or by the iteration where the training counts those; the time of an iteration is
    the median over the log's records.

    Raises:
        FileNotFoundError: the work dir holds no log.
        ValueError: the log holds no validation.
    """
    records = read_scalars(work_dir)
    training = [record for record in records if is_training(record)]
    validations = [record for record in records if record.keys() - NO_METRICS and not is_training(record)]
    if not validations:
        raise ValueError(f'work dir ({work_dir}) has a log without any validation; nothing can be compared')
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


def read_curves(work_dirs: Sequence[str | Path], keys: Sequence[str] | None = None) -> tuple[dict, list[str]]:
    """Records of trainings by the names of their work dirs, and what of them to draw.

    Args:
        keys: names of figures in the logs; None takes the loss and the metrics of the validations.

    Raises:
        FileNotFoundError: a work dir holds no log.
        ValueError: no log has one of the keys, or two work dirs are one.
    """
    runs, seen = {}, set()
    for work_dir in work_dirs:
        path = Path(work_dir).resolve()
        if path in seen:
            raise ValueError(f'work dir {work_dir} is given twice')
        seen.add(path)
        runs[path.name if path.name not in runs else str(path)] = read_scalars(work_dir)
    records = [record for run in runs.values() for record in run]
    known = list(dict.fromkeys(key for record in records for key in record if key not in ('step', 'iter', 'epoch')))
    unknown = [key for key in keys or () if key not in known]
    if unknown:
        raise ValueError(f'--keys {", ".join(unknown)} is in none of the logs; they have {", ".join(known)}')
    metrics = {key for record in records if not is_training(record) for key in record} - NO_METRICS
    return runs, list(keys or ['loss', *(key for key in known if key in metrics)])
