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


@dataclass
class ParameterGroup:
    """Parameters with equal settings of the optimizer; `example` is the name of the first one."""

    settings: dict
    example: str
    tensors: int = 0
    parameters: int = 0


def _groups(training: Training) -> list[ParameterGroup]:
    """Group the trained parameters by all settings, highest learning rate first.

    MMEngine makes a group for every parameter, and schedulers treat equal groups alike.
    """
    settings = {
        id(parameter): group
        for group in training.optimizer.param_groups
        for parameter in group['params']
    }
    groups: dict[tuple, ParameterGroup] = {}
    for name, parameter in training.model.named_parameters():
        if id(parameter) in settings:  # MMEngine leaves out frozen parameters
            own = settings[id(parameter)]
            key = tuple(
                (name, value)
                for name, value in own.items()
                if isinstance(value, (int, float, tuple))
            )
            group = groups.setdefault(key, ParameterGroup(own, name))
            group.tensors += 1
            group.parameters += parameter.numel()
    return sorted(groups.values(), key=lambda group: -group.settings['lr'])


@dataclass(frozen=True)
class Schedule:
    """Settings of an optimizer over a training."""

    iterations: np.ndarray  # (n,) the sampled iterations, from 1
    groups: list[ParameterGroup]  # highest initial learning rate first
    values: dict[str, np.ndarray]  # for each of `KINDS` (n, groups), NaN if undefined

    def render(self) -> str:
        header = (
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
        return align(rows, header, {0, 9})


def schedule_of(training: Training, every: int | None = None) -> Schedule:
    """Compute the schedule of a training, keeping every `every`-th iteration (default: `POINTS` of
    them) and the last.

    Raises:
        ValueError: a scheduler depends on validation metrics.
    """
    groups, probe = _groups(training), copy.copy(training.optimizer)
    probe.param_groups = [
        {**group.settings, 'lr': group.settings['lr'] * training.lr_factor} for group in groups
    ]
    every = every or max(1, training.iterations // POINTS)
    kept = np.unique([*range(1, training.iterations + 1, every), training.iterations])
    wanted, values = set(kept.tolist()), {kind: [] for kind in KINDS}
    for iteration, settings in enumerate(training.follow(probe), 1):
        if iteration in wanted:
            for kind in KINDS:
                values[kind].append(
                    [
                        group['betas'][0]
                        if kind == 'momentum' and 'betas' in group
                        else group.get(kind, float('nan'))
                        for group in settings
                    ]
                )
    return Schedule(kept, groups, {kind: np.array(rows) for kind, rows in values.items()})


def _span(values: np.ndarray) -> str:
    """Format one number if all are equal, otherwise the first and the last; '-' if they are
    undefined.
    """
    if np.isnan(values).all():
        return '-'
    return f'{values[0]:.4g}' if np.ptp(values) == 0 else f'{values[0]:.4g} to {values[-1]:.4g}'
