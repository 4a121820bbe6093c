"""Rate, weight decay and momentum of every iteration, as MMEngine's own schedulers and averages set them."""
from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mmengine.config import Config
from mmengine.optim import OptimWrapper, build_optim_wrapper
from mmengine.registry import HOOKS, MODELS, PARAM_SCHEDULERS, DefaultScope
from torch import nn
from torch.optim import Optimizer

from mmflatten.analysis.text_table import align

KINDS = ('lr', 'weight_decay', 'momentum')


@dataclass(frozen=True)
class Loop:
    """How long a training is.

    Attributes:
        by_epoch: whether its loop counts epochs.
        length: epochs or iterations, as its loop counts.
        epoch_length: iterations of an epoch.
    """

    by_epoch: bool
    length: int
    epoch_length: int

    @classmethod
    def of(cls, cfg: Config, epoch_length: int) -> Loop:
        by_epoch = bool(cfg.train_cfg.get('max_epochs'))
        return cls(by_epoch, cfg.train_cfg.max_epochs if by_epoch else cfg.train_cfg.max_iters, epoch_length)

    @property
    def iterations(self) -> int:
        return self.length * self.epoch_length if self.by_epoch else self.length

    def ends_epoch(self, iteration: int) -> bool:
        """Whether hooks hear of the end of an epoch after this iteration, from 1; a loop of iterations is one epoch."""
        return iteration % (self.epoch_length if self.by_epoch else self.iterations) == 0


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
        header = ('group', 'parameters', 'tensors', 'rate: start', 'peak', 'at iteration', 'end', 'weight decay',
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


def schedule_of(cfg: Config, model: nn.Module, loop: Loop, every: int = 1, rate_factor: float = 1.) -> Schedule:
    """Follow the schedulers of a config through a training without data.

    Args:
        model: of the config; only names and shapes of its parameters count, so it may be on the meta device.
        every: iterations between two that are kept; the last is always kept.
        rate_factor: what `--auto-scale-lr` multiplies the rates with.

    Raises:
        ValueError: there are several optimizers, or a scheduler that waits for metrics.
    """
    scope = cfg.get('default_scope', 'mmengine')
    with DefaultScope.overwrite_default_scope(scope):
        wrapper = build_optim_wrapper(model, without_amp(cfg.optim_wrapper))
    if not isinstance(wrapper, OptimWrapper):
        raise ValueError(f'optim_wrapper.constructor ({cfg.optim_wrapper.constructor}) builds several optimizers; only '
                         'the schedule of one can be shown')
    for group in wrapper.optimizer.param_groups:
        group['lr'] *= rate_factor
    groups = keep_distinct_groups(wrapper.optimizer, model)
    kept = np.unique([*range(1, loop.iterations + 1, every), loop.iterations])
    values: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    wanted = set(kept.tolist())
    for iteration, settings in enumerate(follow(wrapper.optimizer, cfg.get('param_scheduler'), loop, scope), 1):
        if iteration in wanted:
            for kind in KINDS:
                values[kind].append([_setting(group, kind) for group in settings])
    averages = [hook for hook in cfg.get('custom_hooks') or () if str(hook.get('type')).endswith('EMAHook')]
    ema = ema_momentum(averages[0], kept, loop, scope) if averages else None
    return Schedule(kept, groups, {kind: np.array(rows) for kind, rows in values.items()}, ema)


def without_amp(wrapper: dict) -> dict:
    """The same optimizer in full precision: that of mixed precision cannot be built without a GPU."""
    if wrapper.get('type') != 'AmpOptimWrapper':
        return wrapper
    return {**{key: value for key, value in wrapper.items() if key not in ('loss_scale', 'dtype', 'use_fp64')},
            'type': 'OptimWrapper'}


def keep_distinct_groups(optimizer: Optimizer, model: nn.Module) -> list[Group]:
    """Of the groups with equal settings leave the first in an optimizer, and return what each stands for.

    MMEngine makes a group of every parameter, and a schedule treats equal ones alike.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    alike: dict[tuple, list[dict]] = {}
    for group in sorted(optimizer.param_groups, key=lambda group: -group['lr']):
        key = tuple((name, value) for name, value in sorted(group.items()) if isinstance(value, (int, float, tuple)))
        alike.setdefault(key, []).append(group)
    optimizer.param_groups[:] = [groups[0] for groups in alike.values()]
    members = [[parameter for group in groups for parameter in group['params']] for groups in alike.values()]
    return [Group(len(tensors), sum(tensor.numel() for tensor in tensors), names[id(tensors[0])])
            for tensors in members]


def follow(optimizer: Optimizer, cfgs: dict | Sequence[dict] | None, loop: Loop, scope: str) -> Iterator[list[dict]]:
    """The groups of an optimizer in each iteration of a training, whose schedulers step as MMEngine's hook lets them.

    A scheduler without an end has that of the loop, as MMEngine's Runner has it. The list and its groups are the
    optimizer's own and change with the next iteration.

    Raises:
        ValueError: a scheduler waits for metrics.
    """
    ends = {True: loop.length if loop.by_epoch else 1, False: loop.iterations}
    cfgs = [cfgs] if isinstance(cfgs, dict) else cfgs or ()
    with DefaultScope.overwrite_default_scope(scope):
        built = [PARAM_SCHEDULERS.build({'end': ends[cfg.get('by_epoch', True)], **cfg}, default_args=dict(
            optimizer=optimizer, epoch_length=loop.epoch_length)) for cfg in cfgs]
    for scheduler in built:
        if getattr(scheduler, 'need_val_args', False):
            raise ValueError(f'param_scheduler ({type(scheduler).__name__}) waits for the metrics of validations, so '
                             'its rates are not known before the training')
    per_iteration = [scheduler for scheduler in built if not scheduler.by_epoch]
    per_epoch = [scheduler for scheduler in built if scheduler.by_epoch]
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # the optimizer itself never steps
        for iteration in range(1, loop.iterations + 1):
            yield optimizer.param_groups
            for scheduler in per_iteration + (per_epoch if loop.ends_epoch(iteration) else []):
                scheduler.step()


def ema_momentum(hook: dict, iterations: np.ndarray, loop: Loop, scope: str) -> np.ndarray:
    """How much of the new weights the average of an `EMAHook` takes after each iteration; NaN: it is a copy."""
    with DefaultScope.overwrite_default_scope(scope):
        built = HOOKS.build(dict(hook))
        source = nn.Linear(1, 1, bias=False)
        average = MODELS.build(built.ema_cfg, default_args=dict(model=source))
    nn.init.ones_(source.weight)
    weight, = average.module.parameters()
    # Until it begins it is a copy, and so is its first update.
    begin = (built.begin_epoch - 1) * loop.epoch_length + 1 if built.enabled_by_epoch else max(built.begin_iter, 1)
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
