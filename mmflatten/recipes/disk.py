"""Number and size of the checkpoints that a training writes."""
from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from mmflatten.recipes.settings import ema_hooks
from mmflatten.recipes.training import Training


@dataclass(frozen=True)
class Checkpoints:
    """Counts, and sizes in bytes of one checkpoint, without random states and messages of the run."""

    interval: int  # in the unit of the loop; 0 if none is written
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
        """Largest size on the disk; an outdated checkpoint is deleted after the new one is complete."""
        return self.size * (self.kept + (self.written > self.kept))


def checkpoints_of(training: Training) -> Checkpoints:
    """Compute what the config's checkpoint hook writes over the whole training."""
    hook, interval = _checkpoint_hook(training), checkpoint_interval(training)
    weights = _bytes(training.model.state_dict().values())
    rounded = math.ceil if hook.get('save_last', True) else math.floor
    written = rounded(training.length / interval) if interval else 0
    limit = hook.get('max_keep_ckpts', -1)
    kept = min(written, limit) if limit > 0 else written
    best = hook.get('save_best') or []
    optimizer = _optimizer_bytes(training) if hook.get('save_optimizer', True) else 0
    return Checkpoints(interval, written, kept + (1 if isinstance(best, str) else len(best)), weights,
                       weights * len(ema_hooks(training.cfg)), optimizer)


def checkpoint_interval(training: Training) -> int:
    """Epochs or iterations between checkpoints, 0 if none are written."""
    hook = _checkpoint_hook(training)
    interval = hook.get('interval')
    if interval is None:  # mmflatten's hook saves after each validation, MMEngine's never
        interval = -1 if hook.get('type') == 'CheckpointHook' else training.val_interval
    return max(interval, 0)


def _checkpoint_hook(training: Training) -> dict:
    """Config of the checkpoint hook; `checkpoint=None` removes it, so nothing is saved."""
    hooks = training.cfg.get('default_hooks') or {}
    return hooks.get('checkpoint', {}) or dict(interval=-1) if 'checkpoint' in hooks else {}


def _optimizer_bytes(training: Training) -> int:
    """Size of the optimizer's state after a step, which costs nothing on the meta device."""
    for parameter in training.model.parameters():
        parameter.grad = torch.empty_like(parameter) if parameter.requires_grad else None
    training.optimizer.step()
    training.optimizer.zero_grad()
    return _bytes(value for state in training.optimizer.state.values() for value in state.values())


def _bytes(values: Iterable[object]) -> int:
    return sum(value.numel() * value.element_size() for value in values if isinstance(value, Tensor))
