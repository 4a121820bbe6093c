"""Rate, weight decay and momentum of every iteration, as MMEngine's own schedulers and averages set them."""
from __future__ import annotations

import copy
import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mmengine.registry import HOOKS, MODELS, DefaultScope
from torch import nn
from torch.optim import Optimizer

from mmflatten.recipes.recipe import averages
from mmflatten.recipes.training import Training
from mmflatten.text_table import align

KINDS = ('lr', 'weight_decay', 'momentum')


@dataclass(frozen=True)
class Group:
    """Parameters that are optimized alike from the first iteration to the last."""

    tensors: int
    parameters: int
    example: str


@dataclass(frozen=True)
class Schedule:
    """What the optimizer works with.

    Attributes:
        iterations: (n,) those looked at, from 1.
        groups: of parameters, those with the highest first rate first.
        values: 'lr', 'weight_decay', 'momentum' (the first beta of Adam) -> (n, groups); NaN where there is none.
        ema: (n,) as `ema_momentum` gives it; None without an average.
    """

    iterations: np.ndarray
    groups: list[Group]
    values: dict[str, np.ndarray]
    ema: np.ndarray | None

    def render(self) -> str:
        """A row for each group: how many parameters, and rate, decay and momentum at the start, peak and end."""
        header = ('group', 'parameters', 'tensors', 'rate: start', 'peak', 'at about', 'end', 'weight decay',
                  'momentum', 'for example')
        rows = []
        for index, group in enumerate(self.groups):
            rate = self.values['lr'][:, index]
            rows.append([str(index + 1), f'{group.parameters:,}', str(group.tensors), *map(
                '{:.4g}'.format, (rate[0], rate.max())), str(self.iterations[rate.argmax()]), f'{rate[-1]:.4g}',
                _span(self.values['weight_decay'][:, index]), _span(self.values['momentum'][:, index]), group.example])
        average = '' if self.ema is None else f'\nEMA momentum: {_span(self.ema)}'
        return align(rows, header, {0, 9}) + average

    def write_csv(self, path: str | Path) -> None:
        """A line for each iteration: `iteration`, `lr_1`, ..., `weight_decay_1`, ..., `momentum_1`, ..., `ema`."""
        columns = {f'{kind}_{index + 1}': values[:, index] for kind, values in self.values.items()
                   for index in range(len(self.groups))}
        columns.update({} if self.ema is None else dict(ema=self.ema))
        with open(path, 'w', newline='', encoding='utf-8') as file:
            csv.writer(file).writerows([['iteration', *columns], *zip(
                self.iterations.tolist(), *(values.tolist() for values in columns.values()))])


def schedule_of(training: Training, every: int = 1) -> Schedule:
    """Follow a training through all of its iterations, without data.

    Args:
        every: iterations between two that are kept; the last is always kept.

    Raises:
        ValueError: a scheduler waits for metrics.
    """
    probe, groups = distinct_groups(training.optimizer, training.model)
    for group in probe.param_groups:
        group['lr'] *= training.lr_factor
    kept = np.unique([*range(1, training.iterations + 1, every), training.iterations])
    wanted, values = set(kept.tolist()), {kind: [] for kind in KINDS}
    for iteration, settings in enumerate(training.follow(probe), 1):
        if iteration in wanted:
            for kind in KINDS:
                values[kind].append([_setting(group, kind) for group in settings])
    hooks = averages(training.cfg)
    ema = ema_momentum(hooks[0], kept, training) if hooks else None
    return Schedule(kept, groups, {kind: np.array(rows) for kind, rows in values.items()}, ema)


def distinct_groups(optimizer: Optimizer, model: nn.Module) -> tuple[Optimizer, list[Group]]:
    """A copy of an optimizer with one of all groups that have equal settings, and what each of them stands for.

    MMEngine makes a group of every parameter, and a schedule treats equal ones alike.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    alike: dict[tuple, list[dict]] = {}
    for group in sorted(optimizer.param_groups, key=lambda group: -group['lr']):
        key = tuple((name, value) for name, value in sorted(group.items()) if isinstance(value, (int, float, tuple)))
        alike.setdefault(key, []).append(group)
    probe = copy.copy(optimizer)
    probe.param_groups = [dict(groups[0]) for groups in alike.values()]
    members = [[parameter for group in groups for parameter in group['params']] for groups in alike.values()]
    return probe, [Group(len(tensors), sum(tensor.numel() for tensor in tensors), names[id(tensors[0])])
                   for tensors in members]


def ema_momentum(hook: dict, iterations: np.ndarray, training: Training) -> np.ndarray:
    """How much of the new weights the average of an `EMAHook` takes after each iteration; NaN: it is a copy."""
    with DefaultScope.overwrite_default_scope(training.cfg.get('default_scope', 'mmengine')):
        built = HOOKS.build(dict(hook))
        source = nn.Linear(1, 1, bias=False)
        average = MODELS.build(built.ema_cfg, default_args=dict(model=source))
    nn.init.ones_(source.weight)
    weight, = average.module.parameters()
    # Until it begins it is a copy, and so is its first update.
    begin = ((built.begin_epoch - 1) * training.epoch_length + 1 if built.enabled_by_epoch
             else max(built.begin_iter, 1))
    found = np.full(len(iterations), np.nan)
    for index, iteration in enumerate(iterations):
        if iteration > begin:
            weight.data.zero_()
            average.steps.fill_(int(iteration) - begin)
            average.update_parameters(source)
            found[index] = weight.item()
    return found


def _setting(group: dict, kind: str) -> float:
    return group['betas'][0] if kind == 'momentum' and 'betas' in group else group.get(kind, float('nan'))


def _span(values: np.ndarray) -> str:
    """One number where all are the same, else the first and the last."""
    values = values[~np.isnan(values)]
    if not len(values):
        return '-'
    return f'{values[0]:.4g}' if np.ptp(values) == 0 else f'{values[0]:.4g} to {values[-1]:.4g}'
