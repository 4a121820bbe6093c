"""Curves of a training from its log."""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np

MAX_LINES = 12  # more cannot be told apart


def read_scalars(work_dir: str | Path) -> list[dict]:
    """The records of the training in a work dir, as MMEngine's `LocalVisBackend` logged them, over all its runs.

    A run that was resumed repeats the iterations after its checkpoint; what the earlier run logged of them is left out.

    Raises:
        FileNotFoundError: the work dir holds no log of a training.
        ValueError: a log is damaged.
    """
    merged: list[tuple[int, dict]] = []
    for log in sorted(Path(work_dir).glob('*/vis_data/scalars.json')):
        run = _dated(_read_lines(log))
        if not any(is_training(record) for _, record in run):  # a test, or stopped before its first record
            continue
        begin = min(iteration for iteration, record in run if is_training(record))
        validated = {record['step'] for _, record in run if not is_training(record)}
        merged = [(iteration, record) for iteration, record in merged if iteration < begin and (
            is_training(record) or record['step'] not in validated)] + run
    if not merged:
        raise FileNotFoundError(f'{work_dir} has no */vis_data/scalars.json of a training: none has logged there')
    return [record for _, record in merged]


def is_training(record: dict) -> bool:
    """Whether a record is of training iterations; the others are of validations."""
    return 'loss' in record


def _read_lines(log: Path) -> list[dict]:
    """The records of a log, without a last line that a killed run left unfinished."""
    lines = log.read_bytes().splitlines()
    records = []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except ValueError as error:  # not JSON, or not UTF-8
            if number < len(lines):
                raise ValueError(f'{log}, line {number} is not JSON ({error}); restore or remove the file') from error
            continue
        if not isinstance(record, dict) or not isinstance(record.get('step'), int):
            raise ValueError(f'{log}, line {number} ({record}) is no record with a "step"; restore or remove the file')
        records.append(record)
    return records


def _dated(records: list[dict]) -> list[tuple[int, dict]]:
    """Each record with its iteration; a validation has that of the training record before it."""
    dated, iteration = [], 0
    for record in records:
        iteration = record.get('iter', record['step']) if is_training(record) else iteration
        dated.append((iteration, record))
    return dated


def draw_curves(scalars: list[dict], metrics: dict[str, str], path: str | Path) -> None:
    """Draw the losses on the left and metrics of the validations on the right, over the training's steps.

    Args:
        scalars: records of `read_scalars`.
        metrics: key of a metric in the records -> its name in the picture.
        path: PNG to write.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout='constrained')
    left, right = figure.subplots(1, 2)
    training = [record for record in scalars if is_training(record)]
    losses = sorted({key for record in training for key in record if key.startswith('loss')})
    for key in losses:
        points = [(record['step'], record[key]) for record in training if key in record]
        left.plot(*zip(*points), label='total loss' if key == 'loss' else key, linewidth=2 if key == 'loss' else 1)
    left.set(title='losses', xlabel='step', ylim=(0, None))
    left.legend(fontsize='small')
    by_epoch = counts_epochs(scalars)
    for key, name in metrics.items():
        points = [(record['step'], record[key]) for record in scalars if key in record]
        if points:
            right.plot(*zip(*points), marker='o', label=name)
    right.set(title='validation', xlabel='epoch' if by_epoch else 'step', ylim=(0, 1))
    right.grid(alpha=.3)
    if right.lines:
        right.legend(fontsize='small', loc='lower right')
    figure.savefig(path, dpi=100)


def counts_epochs(scalars: list[dict]) -> bool:
    """Whether the steps of validations are epochs, as MMEngine counts them where the training goes by epochs."""
    last = max((record['step'] for record in scalars if not is_training(record)), default=0)
    return last <= max((record.get('epoch', 0) for record in scalars if is_training(record)), default=0)


def draw_runs(runs: dict[str, list[dict]], keys: list[str], path: str | Path) -> None:
    """Draw the same figures of several trainings over each other, a panel for each figure.

    Args:
        runs: name of a training -> its records, of `read_scalars`.
        keys: of the records; those of training records over iterations, others over the steps of validations.
        path: PNG to write.
    """
    from matplotlib.figure import Figure

    columns = min(len(keys), 3)
    rows = -(-len(keys) // columns)
    figure = Figure(figsize=(5 * columns, 3.6 * rows), layout='constrained')
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for key, axes in zip(keys, panels):
        of_training = any(is_training(record) for records in runs.values() for record in records if key in record)
        for name, records in runs.items():
            points = [(record['step'], record[key]) for record in records
                      if key in record and is_training(record) == of_training]
            if points:
                axes.plot(*zip(*points), label=name, marker='' if of_training and len(points) > 1 else 'o')
        by_epoch = not of_training and all(map(counts_epochs, runs.values()))
        axes.set(title=key, xlabel='epoch' if by_epoch else 'iteration')
        axes.grid(alpha=.3)
        axes.legend(fontsize='small')
    for axes in panels[len(keys):]:
        axes.remove()
    figure.savefig(path, dpi=100)


def draw_schedule(iterations: np.ndarray, panels: dict[str, np.ndarray], path: str | Path) -> None:
    """Draw settings of an optimizer over the iterations, a panel each.

    Args:
        iterations: (n,).
        panels: title -> (n, lines); with more than `MAX_LINES` lines their number stands in no legend.
        path: PNG to write.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5 * len(panels), 3.6), layout='constrained')
    for axes, (title, values) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items()):
        for index in range(values.shape[1]):
            axes.plot(iterations, values[:, index], label=f'group {index + 1}')
        axes.set(title=title, xlabel='iteration', ylim=(0, None))
        axes.grid(alpha=.3)
        axes.locator_params(axis='x', nbins=5)
        if 1 < values.shape[1] <= MAX_LINES:
            axes.legend(fontsize='small')
    figure.savefig(path, dpi=100)
