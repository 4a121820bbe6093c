"""A training run, computed without weights and GPU: model, optimizer, learning rates and
checkpoints.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import torch
from mmengine.config import Config
from mmengine.optim import OptimWrapper, build_optim_wrapper
from mmengine.registry import PARAM_SCHEDULERS, DefaultScope
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from mmflatten.engine.class_checks import innermost_datasets
from mmflatten.engine.datasets import DatasetError, build_dataset
from mmflatten.engine.learning_rate import rate_rule
from mmflatten.engine.recipe import settings
from mmflatten.engine.recipe.fast_forward import FastForward
from mmflatten.engine.recipe.settings import (
    TrainingSet,
    base_batch,
    ema_hooks,
    gpus_of,
    grad_accum_steps,
)
from mmflatten.engine.setup import set_auto_scale_lr
from mmflatten.measure.flops.meta import build_on_meta

# ImageNet-22k for 90 epochs on one GPU takes 10 million in batches of 128.
MAX_ITERATIONS = 100_000_000
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
        rate_rule: rule by which the learning rate follows the batch.
        lr_factor: factor of the learning rate, 1 without `--auto-scale-lr`.
        full_lr_factor: factor that `--auto-scale-lr` applies to the learning rate.
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
        loader = cfg.train_dataloader
        self.cfg = cfg
        self.scope = cfg.get('default_scope', 'mmengine')
        self.gpus = gpus or gpus_of(cfg)
        with DefaultScope.overwrite_default_scope(self.scope):
            self.data, self.most_objects = _training_set(loader.dataset, images)
            self.model = build_on_meta(cfg.model, self.scope)
            self.optimizer = _build_optimizer(self.model, cfg.optim_wrapper)
        self.batch = self.gpus * loader.batch_size * grad_accum_steps(cfg)
        self.rate_rule = rate_rule(type(self.optimizer).__name__)
        base = base_batch(cfg) or self.batch
        self.full_lr_factor = self.rate_rule.factor(self.batch / base)
        self.lr_factor = self.full_lr_factor if scaled else 1.0
        # The sampler pads each process to the same number of images.
        batches = math.ceil(self.data.images / self.gpus) / loader.batch_size
        self.epoch_length = math.floor(batches) if loader.get('drop_last') else math.ceil(batches)
        self.length, unit = settings.training_length(cfg)
        self.by_epoch = unit == 'epochs'
        self.iterations = self.length * self.epoch_length if self.by_epoch else self.length
        if self.iterations > MAX_ITERATIONS:
            field = 'max_epochs' if self.by_epoch else 'max_iters'
            raise ValueError(
                f'train_cfg.{field}: expected at most {MAX_ITERATIONS:,} iterations, got'
                f' {self.length} {unit} ({self.iterations} iterations). Shorten the training.'
            )

    def describe_length(self) -> str:
        if self.by_epoch:
            return f'{self.length} epochs of {self.epoch_length:,} iterations'
        return f'{self.iterations:,} iterations'

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """Checkpoints that the config's hook writes over the whole training."""
        hook = (self.cfg.get('default_hooks') or {}).get('checkpoint', {})
        if hook is None:  # removes the hook
            hook = dict(interval=-1)
        interval = self._checkpoint_interval(hook)
        # Regular checkpoints, and those with the best value of a metric.
        rounded = math.ceil if hook.get('save_last', True) else math.floor
        written = rounded(self.length / interval) if interval > 0 else 0
        limit = hook.get('max_keep_ckpts', -1)
        kept = min(written, limit) if limit > 0 else written
        best = hook.get('save_best') or []
        kept += 1 if isinstance(best, str) else len(best)
        if written > kept:  # an outdated one is deleted after the new one is complete
            kept += 1
        size = self._checkpoint_size(with_optimizer=hook.get('save_optimizer', True))
        return Checkpoints(interval=max(interval, 0), size=size, most=size * kept)

    def _checkpoint_interval(self, hook: dict) -> int:
        interval = hook.get('interval')
        if interval is not None:
            return interval
        if hook.get('type') == 'CheckpointHook':  # MMEngine's hook never saves by default
            return -1
        # mmflatten's hook saves after each validation.
        return self.cfg.train_cfg.get('val_interval', 1 if self.by_epoch else 1000)

    def _checkpoint_size(self, with_optimizer: bool) -> int:
        copies = 1 + len(ema_hooks(self.cfg))
        size = copies * _bytes(self.model.state_dict().values())
        if not with_optimizer:
            return size
        # The first step creates the optimizer's state, and costs nothing on the meta device.
        for parameter in self.model.parameters():
            parameter.grad = torch.empty_like(parameter) if parameter.requires_grad else None
        for group in self.optimizer.param_groups:
            if group.get('fused'):  # not on the meta device; the state is the same
                group['fused'] = False
        self.optimizer.step()
        self.optimizer.zero_grad()
        return size + sum(_bytes(state.values()) for state in self.optimizer.state.values())

    @cached_property
    def rates(self) -> list[float]:
        """Learning rate of every iteration, of the parameters with the highest initial rate.

        Raises ValueError as `follow`, and for more than `fast_forward.MAX_STEPS` iterations.
        """
        return self._rates_at(range(1, self.iterations + 1))

    @cached_property
    def last_rate(self) -> float:
        """Learning rate of the last iteration, the last item of `rates`."""
        (rate,) = self._rates_at([self.iterations])
        return rate

    def _rates_at(self, iterations: Iterable[int]) -> list[float]:
        highest = max(group['lr'] for group in self.optimizer.param_groups)
        probe = SGD([nn.Parameter(torch.empty(0))], lr=highest * self.lr_factor)
        return [group['lr'] for (group,) in self.follow(probe, iterations)]

    def follow(self, probe: Optimizer, iterations: Iterable[int]) -> Iterator[list[dict]]:
        """Yield the parameter groups of `probe` in some iterations, as MMEngine's schedulers change
        them in place.

        Args:
            iterations: in ascending order, from 1.

        Raises ValueError if a scheduler depends on validation metrics, or as
        `FastForward.advance`.
        """
        built = self._schedulers(probe)
        by_iteration = FastForward([item for item in built if not item.by_epoch])
        by_epoch = FastForward([item for item in built if item.by_epoch])
        # A training by iterations has no epochs: schedulers by epoch step once, at its end.
        epoch = self.epoch_length if self.by_epoch else self.iterations
        now = 1
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # the probe itself is never stepped
            for iteration in iterations:
                # In each iteration, schedulers by epoch step after those by iteration.
                while by_iteration.schedulers and by_epoch.schedulers:
                    epoch_end = math.ceil(now / epoch) * epoch
                    if epoch_end >= iteration:
                        break
                    by_iteration.advance(epoch_end + 1 - now)
                    by_epoch.advance(1)
                    now = epoch_end + 1
                by_iteration.advance(iteration - now)
                by_epoch.advance((iteration - 1) // epoch - (now - 1) // epoch)
                now = iteration
                yield probe.param_groups

    def _schedulers(self, probe: Optimizer) -> list:
        # As in MMEngine's Runner, schedulers without an `end` end with the training.
        ends = {True: self.length if self.by_epoch else 1, False: self.iterations}
        built = []
        with DefaultScope.overwrite_default_scope(self.scope):
            for item in settings.schedulers(self.cfg):
                scheduler = PARAM_SCHEDULERS.build(
                    {'end': ends[item.get('by_epoch', True)], **item},
                    default_args=dict(optimizer=probe, epoch_length=self.epoch_length),
                )
                if getattr(scheduler, 'need_val_args', False):
                    raise ValueError(
                        f'param_scheduler: {type(scheduler).__name__} depends on validation'
                        ' metrics, so its rates are unknown before the training.'
                    )
                built.append(scheduler)
        return built


def _bytes(values: Iterable[object]) -> int:
    tensors = [value for value in values if isinstance(value, Tensor)]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _training_set(dataset: dict, images: int | None) -> tuple[TrainingSet, int]:
    """Return the training set and the number of objects in the image with the most."""
    data = settings.training_set(dataset)
    known = images or data.images
    if known:
        return data._replace(images=known), 0
    try:
        built = build_dataset(dataset)
        return data._replace(images=len(built)), _most_objects(built)
    except DatasetError as error:
        raise DatasetError(
            f'train_dataloader.dataset: unknown number of images ({error}). Add --dataset-size N.'
        ) from error


def _most_objects(dataset: Any) -> int:
    most = 0
    for part in innermost_datasets(dataset):
        if not hasattr(part, 'cat_ids'):  # not a detection data set
            continue
        for index in range(len(part)):
            instances = part.get_data_info(index)['instances']
            most = max(most, sum(not item['ignore_flag'] for item in instances))
    return most


def _build_optimizer(model: nn.Module, cfg: dict) -> Optimizer:
    """Build the optimizer; mixed precision, which cannot be built without a GPU, is left out."""
    if cfg.get('type') == 'AmpOptimWrapper':
        cfg = {key: value for key, value in cfg.items() if key not in _AMP_OPTIONS}
        cfg['type'] = 'OptimWrapper'
    wrapper = build_optim_wrapper(model, cfg)
    if not isinstance(wrapper, OptimWrapper):
        raise ValueError(
            'optim_wrapper.constructor: expected one that builds a single optimizer, got '
            f'{cfg["constructor"]}.'
        )
    return wrapper.optimizer
