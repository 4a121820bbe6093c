"""A training run, computed without weights and GPU: model, optimizer, learning rates and
checkpoints.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

import torch
from mmengine.config import Config
from mmengine.optim import OptimWrapper, build_optim_wrapper
from mmengine.registry import PARAM_SCHEDULERS, DefaultScope
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from mmflatten.engine.class_checks import leaves_of
from mmflatten.engine.datasets import DatasetError, build_dataset
from mmflatten.engine.recipe import settings
from mmflatten.engine.recipe.settings import (
    TrainingSet,
    base_batch,
    ema_hooks,
    gpus_of,
    grad_accum_steps,
)
from mmflatten.engine.setup import set_auto_scale_lr
from mmflatten.measure.flops.meta import build_on_meta

# followed one by one; 90 epochs of ImageNet-22k in batches of 1,024 have 1.25 million
MAX_ITERATIONS = 3_000_000
_AMP_OPTIONS = ('loss_scale', 'dtype', 'use_fp64')


class Checkpoints(NamedTuple):
    """Checkpoints of a training. Sizes are in bytes, without random states and messages of the
    run.
    """

    interval: int  # in the unit of the loop; 0 if none is written
    size: int  # of one, with averaged weights and optimizer
    most: int  # on the disk; an outdated checkpoint is deleted after the new one is complete


class Training:
    """The run that `mmflatten train` would start with a config on a number of GPUs.

    Args:
        gpus: by default the number in the config's name, or the one that gives its base batch size.
        images: number of training images; by default counted, or the known size of the data set.

    Attributes:
        data: name and size of the training set.
        most_objects: number in the image with the most, 0 if unknown.
        model: on the meta device, like the parameters of `optimizer`.
        batch: images per optimizer step, over all GPUs.
        lr_factor: factor that `--auto-scale-lr` applies to the learning rate.
        length: epochs or iterations, in the unit of the training loop.
        epoch_length, iterations: iterations per epoch and of the whole training.

    Raises DatasetError if the number of images is unknown, and ValueError if the config builds
    several optimizers, scales the rate without a base batch size, or trains for more than
    `MAX_ITERATIONS`.
    """

    def __init__(self, cfg: Config, gpus: int | None = None, images: int | None = None) -> None:
        scaled = (cfg.get('auto_scale_lr') or {}).get('enable')
        if scaled:
            set_auto_scale_lr(cfg)  # requires a base batch size
        self.cfg, self.scope, loader = (
            cfg,
            cfg.get('default_scope', 'mmengine'),
            cfg.train_dataloader,
        )
        self.gpus = gpus or gpus_of(cfg)
        with DefaultScope.overwrite_default_scope(self.scope):
            self.data, self.most_objects = _training_set(loader.dataset, images)
            self.model = build_on_meta(cfg.model, self.scope)
            self.optimizer = _build_optimizer(self.model, cfg.optim_wrapper)
        self.batch = self.gpus * loader.batch_size * grad_accum_steps(cfg)
        self.lr_factor: float = self.batch / base_batch(cfg) if scaled else 1.0
        self.length, unit = settings.training_length(cfg)
        self.by_epoch = unit == 'epochs'
        batches = math.ceil(self.data.images / self.gpus) / loader.batch_size
        self.epoch_length = math.floor(batches) if loader.get('drop_last') else math.ceil(batches)
        self.iterations = self.length * self.epoch_length if self.by_epoch else self.length
        if self.iterations > MAX_ITERATIONS:
            raise ValueError(
                f'train_cfg.{"max_epochs" if self.by_epoch else "max_iters"}: expected at most'
                f' {MAX_ITERATIONS:,} iterations, got {self.length} {unit} ({self.iterations}'
                ' iterations). Shorten the training.'
            )

    def describe_length(self) -> str:
        epochs = f'{self.length} epochs of {self.epoch_length:,} iterations'
        return epochs if self.by_epoch else f'{self.iterations:,} iterations'

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """Checkpoints that the config's hook writes over the whole training."""
        hook = (self.cfg.get('default_hooks') or {}).get('checkpoint', {})
        hook = dict(interval=-1) if hook is None else hook  # None removes the hook
        interval = hook.get('interval')
        if interval is None:  # mmflatten's hook saves after each validation, MMEngine's never
            by_default = self.cfg.train_cfg.get('val_interval', 1 if self.by_epoch else 1000)
            interval = -1 if hook.get('type') == 'CheckpointHook' else by_default
        rounded = math.ceil if hook.get('save_last', True) else math.floor
        written = rounded(self.length / interval) if interval > 0 else 0
        limit, best = hook.get('max_keep_ckpts', -1), hook.get('save_best') or []
        kept = (min(written, limit) if limit > 0 else written) + (
            1 if isinstance(best, str) else len(best)
        )
        size = _bytes(self.model.state_dict().values()) * (1 + len(ema_hooks(self.cfg)))
        if hook.get('save_optimizer', True):
            for parameter in self.model.parameters():
                parameter.grad = torch.empty_like(parameter) if parameter.requires_grad else None
            self.optimizer.step()  # costs nothing on the meta device
            self.optimizer.zero_grad()
            size += _bytes(
                value for state in self.optimizer.state.values() for value in state.values()
            )
        return Checkpoints(max(interval, 0), size, size * (kept + (written > kept)))

    @cached_property
    def rates(self) -> list[float]:
        """Learning rate of every iteration, of the parameters with the highest initial rate."""
        highest = max(group['lr'] for group in self.optimizer.param_groups)
        probe = SGD([nn.Parameter(torch.empty(0))], lr=highest * self.lr_factor)
        return [group['lr'] for (group,) in self.follow(probe)]

    def follow(self, probe: Optimizer) -> Iterator[list[dict]]:
        """Yield the parameter groups of `probe` in every iteration, as MMEngine's schedulers change
        them in place.

        Raises ValueError if a scheduler depends on validation metrics.
        """
        # Like MMEngine's Runner: schedulers without an `end` end with the training, and those by
        # epoch step last.
        ends = {True: self.length if self.by_epoch else 1, False: self.iterations}
        with DefaultScope.overwrite_default_scope(self.scope):
            built = [
                PARAM_SCHEDULERS.build(
                    {'end': ends[item.get('by_epoch', True)], **item},
                    default_args=dict(optimizer=probe, epoch_length=self.epoch_length),
                )
                for item in settings.schedulers(self.cfg)
            ]
        built.sort(key=lambda scheduler: scheduler.by_epoch)
        for scheduler in built:
            if getattr(scheduler, 'need_val_args', False):
                raise ValueError(
                    f'param_scheduler: {type(scheduler).__name__} depends on validation metrics, so'
                    ' its rates are unknown before the training.'
                )
        epoch = self.epoch_length if self.by_epoch else self.iterations
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # the probe itself is never stepped
            for iteration in range(1, self.iterations + 1):
                yield probe.param_groups
                for scheduler in built:
                    if not scheduler.by_epoch or iteration % epoch == 0:
                        scheduler.step()


def _bytes(values: Iterable[object]) -> int:
    return sum(
        value.numel() * value.element_size() for value in values if isinstance(value, Tensor)
    )


def _training_set(dataset: dict, images: int | None) -> tuple[TrainingSet, int]:
    data = settings.training_set(dataset)
    try:
        if images or data.images:
            return data._replace(images=images or data.images), 0
        built = build_dataset(dataset)
        most = max(
            (
                sum(not item['ignore_flag'] for item in part.get_data_info(index)['instances'])
                for part in leaves_of(built)
                if hasattr(part, 'cat_ids')
                for index in range(len(part))
            ),
            default=0,
        )
        return data._replace(images=len(built)), most
    except DatasetError as error:
        raise DatasetError(
            f'train_dataloader.dataset: unknown number of images ({error}). Add --dataset-size N.'
        ) from error


def _build_optimizer(model: nn.Module, cfg: dict) -> Optimizer:
    """Build the optimizer; mixed precision, which cannot be built without a GPU, is left out."""
    if cfg.get('type') == 'AmpOptimWrapper':
        cfg = {
            **{key: value for key, value in cfg.items() if key not in _AMP_OPTIONS},
            'type': 'OptimWrapper',
        }
    wrapper = build_optim_wrapper(model, cfg)
    if not isinstance(wrapper, OptimWrapper):
        raise ValueError(
            'optim_wrapper.constructor: expected one that builds a single optimizer, got '
            f'{cfg["constructor"]}.'
        )
    return wrapper.optimizer
