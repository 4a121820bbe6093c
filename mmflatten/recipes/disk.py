"""How many checkpoints a training writes, and how large they are."""
from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from mmflatten.recipes.recipe import averages
from mmflatten.recipes.training import Training


@dataclass(frozen=True)
class Checkpoints:
    """Sizes are in bytes; the random states and messages of the run, which a checkpoint holds too, are not counted."""

    interval: int  # in the unit of the loop; 0 where none is written
    written: int
    kept: int
    weights: int
    averages: int
    optimizer: int

    @property
    def size(self) -> int:
        return self.weights + self.averages + self.optimizer

    @property
    def most(self) -> int:
        """The most that ever lies on the disk: an outdated one is deleted when the new one is whole."""
        return self.size * (self.kept + (self.written > self.kept))


def checkpoints_of(training: Training) -> Checkpoints:
    """What the config's checkpoint hook writes over the whole training."""
    hook, interval = checkpoint_hook(training), checkpoint_interval(training)
    weights = _bytes(training.model.state_dict().values())
    rounded = math.ceil if hook.get('save_last', True) else math.floor
    written = rounded(training.length / interval) if interval else 0
    limit = hook.get('max_keep_ckpts', -1)
    kept = min(written, limit) if limit > 0 else written
    best = hook.get('save_best') or []
    optimizer = _optimizer_bytes(training) if hook.get('save_optimizer', True) else 0
    return Checkpoints(interval, written, kept + (1 if isinstance(best, str) else len(best)), weights,
                       weights * len(averages(training.cfg)), optimizer)


def checkpoint_hook(training: Training) -> dict:
    """The config of the checkpoint hook; one that the config removed never saves."""
    hooks = training.cfg.get('default_hooks') or {}
    return hooks.get('checkpoint', {}) or dict(interval=-1) if 'checkpoint' in hooks else {}


def checkpoint_interval(training: Training) -> int:
    """Epochs or iterations between checkpoints, whatever the loop counts; 0: none are written."""
    hook = checkpoint_hook(training)
    interval = hook.get('interval')
    if interval is None:  # mmflatten's hook saves what is validated, MMEngine's nothing
        interval = -1 if hook.get('type') == 'CheckpointHook' else validation_interval(training)
    return max(interval, 0)


def validation_interval(training: Training) -> int:
    """Epochs or iterations between validations; the defaults are MMEngine's."""
    return training.cfg.train_cfg.get('val_interval', 1 if training.by_epoch else 1000)


def _optimizer_bytes(training: Training) -> int:
    """The state that the optimizer has after a step, which costs nothing on the meta device."""
    learning = [parameter for parameter in training.model.parameters() if parameter.requires_grad]
    for parameter in learning:
        parameter.grad = torch.empty_like(parameter)
    training.optimizer.step()
    training.optimizer.zero_grad()
    return _bytes(value for state in training.optimizer.state.values() for value in state.values())


def _bytes(values: Iterable[object]) -> int:
    return sum(value.numel() * value.element_size() for value in values if isinstance(value, Tensor))
