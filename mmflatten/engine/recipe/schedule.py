"""Learning rate, weight decay and momentum of every iteration, as MMEngine's schedulers set
them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np

from mmflatten.engine.recipe.training import Training
from mmflatten.text import align

POINTS = 2000  # of a curve, by default
KINDS = ('lr', 'weight_decay', 'momentum')  # the last is the first beta of Adam
HEADER = (
    'group',
    'parameters',
    'tensors',
    'rate: start',
    'peak',
    'at about',
    'end',
    'weight decay',
    'momentum',
    'for example',
)


@dataclass(frozen=True)
class Schedule:
    """Settings of an optimizer over a training."""

    iterations: np.ndarray  # (n,) the sampled iterations, from 1
    groups: list[ParameterGroup]  # highest initial learning rate first
    values: dict[str, np.ndarray]  # for each of `KINDS` (n, groups), NaN if undefined

    def render(self) -> str:
        rows = []
        for index, group in enumerate(self.groups):
            rate, decay, momentum = (self.values[kind][:, index] for kind in KINDS)
            rows.append(
                [
                    str(index + 1),
                    f'{group.parameters:,}',
                    str(group.tensors),
                    f'{rate[0]:.4g}',
                    f'{rate.max():.4g}',
                    str(self.iterations[rate.argmax()]),
                    f'{rate[-1]:.4g}',
                    _span(decay),
                    _span(momentum),
                    group.example,
                ]
            )
        return align(rows, HEADER, {0, 9})


@dataclass
class ParameterGroup:
    """Parameters with equal settings of the optimizer; `example` is the name of the first one."""

    settings: dict
    example: str
    tensors: int = 0
    parameters: int = 0


def schedule_of(training: Training, every: int | None = None) -> Schedule:
    """Compute the schedule of a training, keeping every `every`-th iteration (default: `POINTS` of
    them) and the last.

    Raises:
        ValueError: a scheduler depends on validation metrics, or the schedule has no closed form
            and is too long (see `Training.follow`).
    """
    groups = _groups(training)
    # Schedulers change the probe in place; the optimizer keeps its settings.
    probe = copy.copy(training.optimizer)
    probe.param_groups = [dict(group.settings) for group in groups]
    for settings in probe.param_groups:
        settings['lr'] *= training.lr_factor
    every = every or max(1, training.iterations // POINTS)
    iterations = np.unique([*range(1, training.iterations + 1, every), training.iterations])
    values: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    for current in training.follow(probe, iterations.tolist()):
        for kind in KINDS:
            values[kind].append([_value(settings, kind) for settings in current])
    return Schedule(
        iterations=iterations,
        groups=groups,
        values={kind: np.array(rows) for kind, rows in values.items()},
    )


def _groups(training: Training) -> list[ParameterGroup]:
    """Group the trained parameters by all settings, highest learning rate first.

    MMEngine makes a group for every parameter, and schedulers treat equal groups alike.
    """
    settings_by_id = {}
    for settings in training.optimizer.param_groups:
        for parameter in settings['params']:
            settings_by_id[id(parameter)] = settings
    groups: dict[tuple, ParameterGroup] = {}
    for name, parameter in training.model.named_parameters():
        settings = settings_by_id.get(id(parameter))
        if settings is None:  # MMEngine leaves out frozen parameters
            continue
        group = groups.setdefault(_plain_settings(settings), ParameterGroup(settings, name))
        group.tensors += 1
        group.parameters += parameter.numel()
    return sorted(groups.values(), key=lambda group: -group.settings['lr'])


def _plain_settings(settings: dict) -> tuple:
    """Return names and values of the settings that are numbers or tuples of them."""
    plain = []
    for name, value in settings.items():
        if isinstance(value, (int, float, tuple)):
            plain.append((name, value))
    return tuple(plain)


def _value(settings: dict, kind: str) -> float:
    if kind == 'momentum' and 'betas' in settings:
        return settings['betas'][0]
    return settings.get(kind, float('nan'))


def _span(values: np.ndarray) -> str:
    """Format one number if all are equal, otherwise the first and the last; '-' if they are
    undefined.
    """
    if np.isnan(values).all():
        return '-'
    if np.ptp(values) == 0:
        return f'{values[0]:.4g}'
    return f'{values[0]:.4g} to {values[-1]:.4g}'
