"""Common mistakes in recipes, found before the first step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from torch.nn import SyncBatchNorm
from torch.nn.modules.batchnorm import _BatchNorm

from mmflatten.datasets.used import too_few_boxes
from mmflatten.engine.class_checks import wrong_heads
from mmflatten.engine.datasets import first_config, read_metainfo
from mmflatten.engine.recipe.settings import (
    base_batch,
    ema_hooks,
    ema_momentum,
    schedulers,
    training_length,
)
from mmflatten.engine.recipe.training import Training
from mmflatten.models.attention import (
    AgentAttention,
    InLineAttention,
    MagnitudeAwareLinearAttention,
)
from mmflatten.models.attention.gated import RotaryMixer


def warnings_of(training: Training) -> list[tuple[str, str]]:
    """Run all checks, in the order of `CHECKS`. A warning is the name of a check, and what is wrong
    with its fix.
    """
    return [(name, text) for name, check in CHECKS.items() for text in check(training)]


def _batch(training: Training) -> Iterator[str]:
    base, batch = base_batch(training.cfg), training.batch
    if base and base != batch and training.lr_factor == 1:
        yield (
            f'auto_scale_lr.base_batch_size: the learning rate is for a batch of {base}, got'
            f' {batch}. Train with --auto-scale-lr, which multiplies the rate by {batch / base:g},'
            ' or set batch_size or optim_wrapper.accumulative_counts.'
        )


def _schedule(training: Training) -> Iterator[str]:
    warmups, falls, total = {}, {}, training.iterations  # name -> last iteration
    constant = True  # apart from warm-ups
    for index, item in enumerate(schedulers(training.cfg)):
        name, by_epoch = f'param_scheduler.{index} ({item.type})', item.get('by_epoch', True)
        begin, end, half, milestones = (
            item.get(key) for key in ('begin', 'end', 'T_max', 'milestones')
        )
        if by_epoch and not training.by_epoch:
            yield (
                f'{name}: counts epochs, but the training loop counts iterations, so it never'
                ' steps. Set by_epoch=False and give begin and end in iterations.'
            )
            continue
        if half and end and half != end - (begin or 0):
            yield (
                f'{name}: expected T_max = end - begin = {end - (begin or 0)}, got {half}, so the'
                ' rate rises again or does not reach its minimum. Remove T_max.'
            )
        unit = training.epoch_length if by_epoch else 1
        last = end * unit if end else total
        if (
            item.type == 'LinearLR'
            and not begin
            and item.get('start_factor', 1 / 3) < item.get('end_factor', 1)
        ):
            warmups[name] = last
        else:
            constant = constant and item.type == 'ConstantLR' and item.get('factor') == 1
            falls[name] = max([last, *(milestone * unit + 1 for milestone in milestones or ())])
    for name, last in warmups.items():
        if last >= min([total, *falls.values()]):
            yield (
                f'{name}: the warm-up ends at iteration {last:,}, after the training or its'
                ' schedule. Shorten it.'
            )
    if not constant and (last := max(falls.values())) != total:
        effect = (
            'then the rate is constant'
            if last < total
            else f'where the rate is still {training.last_rate:.3g}'
        )
        yield (
            f'param_scheduler: the schedule ends at iteration {last:,}, the training at {total:,},'
            f' {effect}. Set its end and milestones to the length of the training, and by_epoch to'
            ' their unit.'
        )


def _averages(training: Training) -> Iterator[str]:
    for hook in ema_hooks(training.cfg):
        momentum = ema_momentum(hook)
        horizon = hook.get('interval', 1) / momentum
        if momentum > 0.5:
            yield (
                'EMAHook.momentum: expected the small weight of the new parameters, got'
                f' {momentum:g}. For a decay of {momentum:g} set momentum={1 - momentum:.6g}.'
            )
        elif horizon > training.iterations:
            yield (
                f'EMAHook.momentum: averages over about {horizon:,.0f} iterations (interval /'
                f' momentum) of a training of {training.iterations:,}, so the initial weights never'
                ' fade. Raise momentum.'
            )


def _frozen(training: Training) -> Iterator[str]:
    model = training.cfg.model
    frozen = [
        name for name, parameter in training.model.named_parameters() if not parameter.requires_grad
    ]
    init_cfgs = [model.get('init_cfg'), (model.get('backbone') or {}).get('init_cfg')]
    loaded = (
        training.cfg.get('load_from') or model.get('pretrained') or 'checkpoint' in str(init_cfgs)
    )
    if frozen and not loaded:
        yield (
            f'frozen_stages: {len(frozen)} parameters ({frozen[0]}, ...) are frozen at random'
            ' values because no checkpoint is loaded. Set load_from or backbone.init_cfg, or train'
            ' them.'
        )


def _checkpoints(training: Training) -> Iterator[str]:
    interval, unit = training.checkpoints.interval, training_length(training.cfg)[1]
    if not interval:
        yield (
            'default_hooks.checkpoint: no checkpoint is written. Set'
            ' default_hooks.checkpoint.interval.'
        )
    elif interval > training.length:
        yield (
            f'default_hooks.checkpoint.interval: {interval} {unit} of {training.length}, so an'
            ' interrupted training starts over. Lower it, or train_cfg.val_interval.'
        )


def _classes(training: Training) -> Iterator[str]:
    classes = read_metainfo(training.cfg, 'train').get('classes') or ()
    yield from wrong_heads(training.model, len(classes), 'train_dataloader.dataset', exact=True)


def _single_samples(training: Training) -> Iterator[str]:
    frozen = getattr(getattr(training.model, 'backbone', None), 'norm_eval', False)
    norms = [
        name
        for name, module in training.model.named_modules()
        if isinstance(module, _BatchNorm)
        and not (frozen and name.startswith('backbone.'))
        and (training.gpus == 1 or not isinstance(module, SyncBatchNorm))
    ]
    if norms and training.cfg.train_dataloader.batch_size == 1:
        yield (
            f'train_dataloader.batch_size: batch norm ({len(norms)} layers, such as'
            f' model.{norms[0]}) needs several images per device, got 1: pooled maps of one pixel'
            ' end in an error. Raise it, or set norm_cfg to GN.'
        )


def _larger_images(training: Training) -> Iterator[str]:
    bare = {
        name
        for name, part in training.model.named_modules()
        if isinstance(part, (AgentAttention, InLineAttention, MagnitudeAwareLinearAttention))
        and not part.local_terms()
    }
    falls = {
        name: name not in bare
        for name, part in training.model.named_modules()
        if name in bare or isinstance(part, RotaryMixer) and part.rotary
    }
    trained, tested = (
        _pixels(training.cfg.get(f'{part}_dataloader') or {}) for part in ('train', 'test')
    )
    if falls and tested >= 4 * trained > 0:
        name, rotary = next(iter(falls.items()))
        what, fix = (
            ('rotary positions can lose', ', or set rotary=False')
            if rotary
            else ('agents, InLine and MALA without a convolution can lose', '')
        )
        yield (
            f'test_dataloader: {tested / trained:.1f} times the pixels of training, where {what}'
            f' accuracy ({name}; lab/docs/third_study.md). Train at this size{fix}.'
        )


def _pixels(loader: dict) -> int:
    """Pixels of an image behind the last step that sets its size, of the largest size if there are
    several.

    A size that keeps the ratio counts as the square of its shorter side; 0 if no step sets one.
    """
    found = 0
    for step in first_config(loader.get('dataset') or {}).get('pipeline') or ():
        # None is NaN
        sizes = np.array(
            step.get('scales') or step.get('crop_size') or step.get('scale') or (), float
        )
        sides = [[int(side) for side in size if side > 0] for size in np.atleast_2d(sizes)]
        keep = step.get('keep_ratio', 'scales' in step)  # RandomChoiceResize keeps it
        found = max(
            (min(pair) ** 2 if keep else pair[0] * pair[-1] for pair in sides if pair),
            default=found,
        )
    return found


CHECKS: dict[str, Callable[[Training], Iterable[str]]] = {
    'batch': _batch,
    'schedule': _schedule,
    'ema-length': _averages,
    'frozen': _frozen,
    'checkpoints': _checkpoints,
    'classes': _classes,
    'objects': lambda training: too_few_boxes(training.cfg.model, training.most_objects),
    'batch-norm': _single_samples,
    'larger-images': _larger_images,
}
