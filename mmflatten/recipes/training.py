"""A training as it would run, without data and weights: its model, its optimizer, and the rate of every step."""
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

from mmflatten.measure.flops.meta import build_on_meta
from mmflatten.recipes.datasets import TrainingSet, training_set
from mmflatten.recipes.recipe import base_batch, gpus_of, schedulers, steps


@dataclass(frozen=True)
class Training:
    """What `tools/train.py` would do with a config on a number of GPUs."""

    cfg: Config
    gpus: int
    data: TrainingSet
    model: nn.Module  # on the meta device
    optimizer: Optimizer

    @classmethod
    def of(cls, cfg: Config, gpus: int | None = None, images: int | None = None) -> Training:
        """Build model and optimizer of a config on the meta device.

        Args:
            gpus: None takes those of the config's name, else as many as its base batch size asks for.
            images: number of training images; None counts them or takes the data set's known size.

        Raises:
            ValueError: the number of images is not known, there are several optimizers, or the rate is to be scaled
                from a batch that is not given.
        """
        if (cfg.get('auto_scale_lr') or {}).get('enable') and not base_batch(cfg):
            raise ValueError('auto_scale_lr.enable is True without auto_scale_lr.base_batch_size; give the batch that '
                             'optimizer.lr is for')
        data = training_set(cfg.train_dataloader.dataset)
        if images:
            data = TrainingSet(data.name, images, 'as given')
        if not data.images:
            raise ValueError(f'train_dataloader.dataset ({data.name}): how many images it has is not known here; give '
                             '--dataset-size N')
        scope = cfg.get('default_scope', 'mmengine')
        model = build_on_meta(cfg.model, scope)
        with DefaultScope.overwrite_default_scope(scope):
            wrapper = build_optim_wrapper(model, _without_amp(cfg.optim_wrapper))
        if not isinstance(wrapper, OptimWrapper):
            raise ValueError(f'optim_wrapper.constructor ({cfg.optim_wrapper.constructor}) builds several optimizers; '
                             'only a training with one can be checked')
        return cls(cfg, gpus or gpus_of(cfg), data, model, wrapper.optimizer)

    @property
    def batch(self) -> int:
        """Images behind each step of the optimizer, on all GPUs."""
        return self.gpus * self.cfg.train_dataloader.batch_size * steps(self.cfg)

    @property
    def by_epoch(self) -> bool:
        return bool(self.cfg.train_cfg.get('max_epochs'))

    @property
    def epoch_length(self) -> int:
        """Iterations of an epoch: each image drawn once (with repeated augmentation: as many draws as images)."""
        per_gpu = math.ceil(self.data.images / self.gpus)
        number = per_gpu / self.cfg.train_dataloader.batch_size
        return math.floor(number) if self.cfg.train_dataloader.get('drop_last') else math.ceil(number)

    @property
    def length(self) -> int:
        """Epochs or iterations of the training, in the unit of its loop."""
        return self.cfg.train_cfg.max_epochs if self.by_epoch else self.cfg.train_cfg.max_iters

    @property
    def iterations(self) -> int:
        return self.length * self.epoch_length if self.by_epoch else self.length

    @property
    def images_seen(self) -> int:
        return self.iterations * self.gpus * self.cfg.train_dataloader.batch_size

    @property
    def lr_factor(self) -> float:
        """What `--auto-scale-lr` multiplies the rate with."""
        if not (self.cfg.get('auto_scale_lr') or {}).get('enable'):
            return 1.
        return self.batch / base_batch(self.cfg)

    @cached_property
    def rates(self) -> dict[float, list[float]]:
        """For each rate that the optimizer starts out from, the rate of every iteration."""
        bases = sorted({group['lr'] for group in self.optimizer.param_groups}, reverse=True)
        bases = bases if len(bases) < 3 else [bases[0], bases[-1]]  # of a layer decay, the two ends
        probe = SGD([dict(params=[nn.Parameter(torch.empty(0))], lr=base * self.lr_factor) for base in bases], lr=1.)
        return dict(zip(bases, zip(*([group['lr'] for group in groups] for groups in self.follow(probe)))))

    def follow(self, probe: Optimizer) -> Iterator[list[dict]]:
        """The groups of an optimizer in every iteration, which MMEngine's schedulers change as its Runner lets them.

        They are the optimizer's own groups and change with the next iteration.

        Raises:
            ValueError: a scheduler waits for metrics.
        """
        built = self._build_schedulers(probe)
        for scheduler in built:
            if getattr(scheduler, 'need_val_args', False):
                raise ValueError(f'param_scheduler ({type(scheduler).__name__}) waits for the metrics of validations, '
                                 'so its rates are not known before the training')
        per_iteration = [scheduler for scheduler in built if not scheduler.by_epoch]
        per_epoch = [scheduler for scheduler in built if scheduler.by_epoch]
        end_of_epoch = self.epoch_length if self.by_epoch else self.iterations
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # the probe is never stepped itself
            for iteration in range(1, self.iterations + 1):
                yield probe.param_groups
                for scheduler in per_iteration:
                    scheduler.step()
                for scheduler in per_epoch if iteration % end_of_epoch == 0 else ():
                    scheduler.step()

    def _build_schedulers(self, probe: Optimizer) -> list:
        """The config's schedulers, where one without an end takes that of the loop, as MMEngine's Runner has it."""
        ends = {True: self.length if self.by_epoch else 1, False: self.iterations}
        with DefaultScope.overwrite_default_scope(self.cfg.get('default_scope', 'mmengine')):
            return [PARAM_SCHEDULERS.build({'end': ends[item.get('by_epoch', True)], **item},
                                           default_args=dict(optimizer=probe, epoch_length=self.epoch_length))
                    for item in schedulers(self.cfg)]


def _without_amp(wrapper: dict) -> dict:
    """The same optimizer in full precision: that of mixed precision cannot be built without a GPU."""
    if wrapper.get('type') != 'AmpOptimWrapper':
        return wrapper
    return {**{key: value for key, value in wrapper.items() if key not in ('loss_scale', 'dtype', 'use_fp64')},
            'type': 'OptimWrapper'}
