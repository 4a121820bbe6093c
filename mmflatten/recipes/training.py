"""A training run, computed without data and weights: model, optimizer, and the learning rate of every iteration."""
from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from mmengine.config import Config
from mmengine.optim import OptimWrapper, build_optim_wrapper
from mmengine.registry import PARAM_SCHEDULERS, DefaultScope
from torch import nn
from torch.optim import SGD, Optimizer

from mmflatten.engine.datasets import DatasetError, build_dataset
from mmflatten.measure.flops.meta import build_on_meta
from mmflatten.recipes.datasets import TrainingSet, training_set
from mmflatten.recipes.settings import base_batch, gpus_of, grad_accum_steps, schedulers, training_length


@dataclass(frozen=True)
class Training:
    """The run that `mmflatten train` would start with a config on a number of GPUs."""

    cfg: Config
    gpus: int
    data: TrainingSet
    model: nn.Module  # on the meta device
    optimizer: Optimizer

    @classmethod
    def of(cls, cfg: Config, gpus: int | None = None, images: int | None = None) -> Training:
        """Build the model and the optimizer of a config on the meta device.

        Args:
            gpus: by default the number in the config's name, or the one that gives its base batch size.
            images: number of training images; by default counted, or the known size of the data set.

        Raises:
            DatasetError: the number of images is unknown.
            ValueError: the config builds several optimizers, or scales the rate without a base batch size.
        """
        if (cfg.get('auto_scale_lr') or {}).get('enable') and not base_batch(cfg):
            raise ValueError('auto_scale_lr.base_batch_size: required when auto_scale_lr.enable is True. Set it to the '
                             'batch size that optimizer.lr is for.')
        scope = cfg.get('default_scope', 'mmengine')
        data = _training_set(cfg.train_dataloader.dataset, scope, images)
        model = build_on_meta(cfg.model, scope)
        with DefaultScope.overwrite_default_scope(scope):
            wrapper = build_optim_wrapper(model, _without_amp(cfg.optim_wrapper))
        if not isinstance(wrapper, OptimWrapper):
            raise ValueError('optim_wrapper.constructor: expected one that builds a single optimizer, got '
                             f'{cfg.optim_wrapper.constructor}.')
        return cls(cfg, gpus or gpus_of(cfg), data, model, wrapper.optimizer)

    @property
    def batch(self) -> int:
        """Images per optimizer step, over all GPUs."""
        return self.gpus * self.cfg.train_dataloader.batch_size * grad_accum_steps(self.cfg)

    @property
    def by_epoch(self) -> bool:
        return bool(self.cfg.train_cfg.get('max_epochs'))

    @property
    def length(self) -> int:
        """Epochs or iterations, in the unit of the training loop."""
        return training_length(self.cfg)[0]

    @property
    def epoch_length(self) -> int:
        """Iterations per epoch. Repeated augmentation draws as many samples as there are images."""
        batches = math.ceil(self.data.images / self.gpus) / self.cfg.train_dataloader.batch_size
        return math.floor(batches) if self.cfg.train_dataloader.get('drop_last') else math.ceil(batches)

    @property
    def iterations(self) -> int:
        return self.length * self.epoch_length if self.by_epoch else self.length

    @property
    def val_interval(self) -> int:
        """Epochs or iterations between validations; the defaults are MMEngine's."""
        return self.cfg.train_cfg.get('val_interval', 1 if self.by_epoch else 1000)

    @property
    def lr_factor(self) -> float:
        """Factor that `--auto-scale-lr` applies to the learning rate."""
        scaled = (self.cfg.get('auto_scale_lr') or {}).get('enable')
        return self.batch / base_batch(self.cfg) if scaled else 1.

    @cached_property
    def rates(self) -> dict[float, list[float]]:
        """Initial learning rate -> rate of every iteration; with layer decay, for the highest and the lowest rate."""
        bases = sorted({group['lr'] for group in self.optimizer.param_groups}, reverse=True)
        bases = bases if len(bases) < 3 else [bases[0], bases[-1]]
        probe = SGD([dict(params=[nn.Parameter(torch.empty(0))], lr=base * self.lr_factor) for base in bases], lr=1.)
        return dict(zip(bases, zip(*([group['lr'] for group in groups] for groups in self.follow(probe)))))

    def follow(self, probe: Optimizer) -> Iterator[list[dict]]:
        """Yield the parameter groups of `probe` in every iteration, as MMEngine's schedulers change them in place.

        Raises:
            ValueError: a scheduler depends on validation metrics.
        """
        built = sorted(self._build_schedulers(probe), key=lambda scheduler: scheduler.by_epoch)  # MMEngine's order
        for scheduler in built:
            if getattr(scheduler, 'need_val_args', False):
                raise ValueError(f'param_scheduler: {type(scheduler).__name__} depends on validation metrics, so its '
                                 'rates are unknown before the training.')
        epoch = self.epoch_length if self.by_epoch else self.iterations
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # the probe itself is never stepped
            for iteration in range(1, self.iterations + 1):
                yield probe.param_groups
                for scheduler in built:
                    if not scheduler.by_epoch or iteration % epoch == 0:
                        scheduler.step()

    def _build_schedulers(self, probe: Optimizer) -> list:
        """Build the config's schedulers; like MMEngine's Runner, end those without an `end` with the training."""
        ends = {True: self.length if self.by_epoch else 1, False: self.iterations}
        with DefaultScope.overwrite_default_scope(self.cfg.get('default_scope', 'mmengine')):
            return [PARAM_SCHEDULERS.build({'end': ends[item.get('by_epoch', True)], **item},
                                           default_args=dict(optimizer=probe, epoch_length=self.epoch_length))
                    for item in schedulers(self.cfg)]


def _training_set(dataset: dict, scope: str, images: int | None) -> TrainingSet:
    data = training_set(dataset)
    if images:
        return TrainingSet(data.name, images, 'as given')
    if data.images:
        return data
    try:
        with DefaultScope.overwrite_default_scope(scope):
            return TrainingSet(data.name, len(build_dataset(dataset)), 'counted')
    except DatasetError as error:
        raise DatasetError(f'train_dataloader.dataset: unknown number of images ({error}). Add --dataset-size N.'
                           ) from error


def _without_amp(wrapper: dict) -> dict:
    """Replace mixed precision, which cannot be built without a GPU, by full precision."""
    if wrapper.get('type') != 'AmpOptimWrapper':
        return wrapper
    return {**{key: value for key, value in wrapper.items() if key not in ('loss_scale', 'dtype', 'use_fp64')},
            'type': 'OptimWrapper'}
