"""Trainings side by side: the metrics of their last validation, from the logs in their work dirs."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from mmflatten.analysis.text_table import align
from mmflatten.visualization.curves import read_scalars

NO_METRICS = {'step', 'time', 'data_time', 'epoch', 'iter', 'lr', 'memory', 'grad_norm'}


@dataclass(frozen=True)
class Run:
    """What the log of a training says."""

    name: str  # of the work dir
    metrics: dict[str, float]  # of the last validation
    validated: int  # epoch of that validation, or iteration where the training counts those
    iterations: int  # trained in all
    seconds: float  # of an iteration, the median over the log's records


def read_run(work_dir: str | Path) -> Run:
    """The newest training in a work dir.

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
    last = validations[-1]
    metrics = {key: value for key, value in last.items() if key not in NO_METRICS}
    return Run(Path(work_dir).resolve().name, metrics, last['step'], training[-1].get('iter', training[-1]['step']),
               median(record['time'] for record in training))


def render_comparison(runs: Sequence[Run]) -> str:
    """A row for each metric that all runs have, a column for each run, and of two runs the second minus the first."""
    shared = [key for key in runs[0].metrics if all(key in run.metrics for run in runs)]
    rows = [[key, *(f'{run.metrics[key]:.4g}' for run in runs)] for key in shared]
    rows += [['validated after', *(str(run.validated) for run in runs)],
             ['iterations', *(str(run.iterations) for run in runs)],
             ['s per iteration', *(f'{run.seconds:.3f}' for run in runs)]]
    header = ['', *(run.name for run in runs)]
    if len(runs) == 2:
        header.append('difference')
        differences = [f'{runs[1].metrics[key] - runs[0].metrics[key]:+.4g}' for key in shared]
        for row, cell in zip(rows, [*differences, '', '', '']):
            row.append(cell)
    return align(rows, header, {0})
