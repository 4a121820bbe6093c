"""Learning rate, weight decay and momentum of every iteration, as MMEngine's schedulers and averages set them."""
from __future__ import annotations

import copy
import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mmengine.registry import HOOKS, MODELS, DefaultScope
from torch import nn

from mmflatten.recipes.parameters import ParameterGroup, distinct_groups
from mmflatten.recipes.settings import ema_hooks
from mmflatten.recipes.training import Training
from mmflatten.text import align

KINDS = ('lr', 'weight_decay', 'momentum')


@dataclass(frozen=True)
class Schedule:
    """Settings of an optimizer over a training.

    Attributes:
        iterations: (n,) the sampled iterations, from 1.
        groups: parameter groups, highest initial learning rate first.
        values: 'lr', 'weight_decay', 'momentum' (the first beta of Adam) -> (n, groups), NaN if undefined.
        ema: (n,) as `average_momentum` returns it, None without EMA.
    """

    iterations: np.ndarray
    groups: list[ParameterGroup]
    values: dict[str, np.ndarray]
    ema: np.ndarray | None

    def render(self) -> str:
        """Tabulate for each group its size, and its rate, decay and momentum at the start, peak and end."""
        header = ('group', 'parameters', 'tensors', 'rate: start', 'peak', 'at about', 'end', 'weight decay',
                  'momentum', 'for example')
        rows = []
        for index, group in enumerate(self.groups):
            rate, decay, momentum = (self.values[kind][:, index] for kind in KINDS)
            rows.append([str(index + 1), f'{group.parameters:,}', str(group.tensors), f'{rate[0]:.4g}',
                         f'{rate.max():.4g}', str(self.iterations[rate.argmax()]), f'{rate[-1]:.4g}', _span(decay),
                         _span(momentum), group.example])
        average = '' if self.ema is None else f'\nEMA momentum: {_span(self.ema)}'
        return align(rows, header, {0, 9}) + average

    def write_csv(self, path: str | Path) -> None:
        """Write `iteration`, `lr_1`, ..., `weight_decay_1`, ..., `momentum_1`, ..., `ema`, one line per iteration."""
        columns = {f'{kind}_{index + 1}': values[:, index] for kind, values in self.values.items()
                   for index in range(len(self.groups))}
        columns.update({} if self.ema is None else dict(ema=self.ema))
        with open(path, 'w', newline='', encoding='utf-8') as file:
            csv.writer(file).writerows([['iteration', *columns], *zip(
                self.iterations.tolist(), *(values.tolist() for values in columns.values()))])


def schedule_of(training: Training, every: int = 1) -> Schedule:
    """Compute the schedule of a training, keeping every `every`-th iteration and the last one.

    Raises:
        ValueError: a scheduler depends on validation metrics.
    """
    groups, probe = distinct_groups(training.model, training.optimizer), copy.copy(training.optimizer)
    probe.param_groups = [{**group.settings, 'lr': group.settings['lr'] * training.lr_factor} for group in groups]
    kept = np.unique([*range(1, training.iterations + 1, every), training.iterations])
    wanted, values = set(kept.tolist()), {kind: [] for kind in KINDS}
    for iteration, settings in enumerate(training.follow(probe), 1):
        if iteration in wanted:
            for kind in KINDS:
                values[kind].append([group['betas'][0] if kind == 'momentum' and 'betas' in group else
                                     group.get(kind, float('nan')) for group in settings])
    hooks = ema_hooks(training.cfg)
    ema = average_momentum(hooks[0], kept, training) if hooks else None
    return Schedule(kept, groups, {kind: np.array(rows) for kind, rows in values.items()}, ema)


def average_momentum(hook: dict, iterations: np.ndarray, training: Training) -> np.ndarray:
    """Weight of the new parameters in the average of an `EMAHook` after each iteration, NaN while it is a copy."""
    with DefaultScope.overwrite_default_scope(training.scope):
        built = HOOKS.build(dict(hook))
        source = nn.Linear(1, 1, bias=False)
        average = MODELS.build(built.ema_cfg, default_args=dict(model=source))
    nn.init.ones_(source.weight)
    weight, = average.module.parameters()
    # The average is a copy until it begins, and in its first update.
    begin = max(built.begin_iter, 1)
    if built.enabled_by_epoch:
        begin = (built.begin_epoch - 1) * training.epoch_length + 1
    momenta = np.full(len(iterations), np.nan)
    for index, iteration in enumerate(iterations):
        if iteration > begin:
            weight.data.zero_()
            average.steps.fill_(int(iteration) - begin)
            average.update_parameters(source)
            momenta[index] = weight.item()
    return momenta


def _span(values: np.ndarray) -> str:
    """Format one number if all are equal, otherwise the first and the last."""
    values = values[~np.isnan(values)]
    if not len(values):
        return '-'
    return f'{values[0]:.4g}' if np.ptp(values) == 0 else f'{values[0]:.4g} to {values[-1]:.4g}'
