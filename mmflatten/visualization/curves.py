"""Curves of a training from its log."""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np

MAX_LINES = 12  # more cannot be told apart


def read_scalars(work_dir: str | Path) -> list[dict]:
    """The records of the newest run in a work dir, as MMEngine's `LocalVisBackend` logged them.

    Raises:
        FileNotFoundError: the work dir holds no log.
    """
    logs = sorted(Path(work_dir).glob('*/vis_data/scalars.json'))
    if not logs:
        raise FileNotFoundError(f'{work_dir} has no */vis_data/scalars.json: no training has logged there')
    return [json.loads(line) for line in logs[-1].read_text().splitlines()]


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
    training = [record for record in scalars if 'loss' in record]
    losses = sorted({key for record in training for key in record if key.startswith('loss')})
    for key in losses:
        points = [(record['step'], record[key]) for record in training if key in record]
        left.plot(*zip(*points), label='total loss' if key == 'loss' else key, linewidth=2 if key == 'loss' else 1)
    left.set(title='losses', xlabel='step', ylim=(0, None))
    left.legend(fontsize='small')
    validations = [record['step'] for record in scalars if metrics.keys() & record.keys()]
    # MMEngine counts the steps of a validation in epochs where the training goes by epochs.
    by_epoch = max(validations, default=0) <= max((record.get('epoch', 0) for record in training), default=0)
    for key, name in metrics.items():
        points = [(record['step'], record[key]) for record in scalars if key in record]
        if points:
            right.plot(*zip(*points), marker='o', label=name)
    right.set(title='validation', xlabel='epoch' if by_epoch else 'step', ylim=(0, 1))
    right.grid(alpha=.3)
    if right.lines:
        right.legend(fontsize='small', loc='lower right')
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
        if 1 < values.shape[1] <= MAX_LINES:
            axes.legend(fontsize='small')
    figure.savefig(path, dpi=100)
