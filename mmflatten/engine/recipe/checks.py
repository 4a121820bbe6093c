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

# Attentions that lose accuracy on larger images if they have no convolution.
_BARE_MIXERS = (AgentAttention, InLineAttention, MagnitudeAwareLinearAttention)


def warnings_of(training: Training) -> list[tuple[str, str]]:
    """Run all checks, in the order of `CHECKS`. A warning is the name of a check, and what is wrong
    with its fix.
    """
    warnings = []
    for name, check in CHECKS.items():
        warnings += [(name, text) for text in check(training)]
    return warnings


def _batch(training: Training) -> Iterator[str]:
    base, batch = base_batch(training.cfg), training.batch
    if base and base != batch and training.lr_factor == 1:
        yield (
            f'auto_scale_lr.base_batch_size: the learning rate is for a batch of {base}, got'
            f' {batch}. Train with --auto-scale-lr, which multiplies the rate by'
            f' {training.full_lr_factor:.4g} ({training.rate_rule.name}), or set batch_size or'
            ' optim_wrapper.accumulative_counts.'
        )


def _schedule(training: Training) -> Iterator[str]:
    # Name of a scheduler -> last iteration in which it changes the rate.
    warmups: dict[str, int] = {}
    falls: dict[str, int] = {}
    constant = True  # apart from warm-ups
    for index, item in enumerate(schedulers(training.cfg)):
        name = f'param_scheduler.{index} ({item.type})'
        by_epoch = item.get('by_epoch', True)
        if by_epoch and not training.by_epoch:
            yield (
                f'{name}: counts epochs, but the training loop counts iterations, so it never'
                ' steps. Set by_epoch=False and give begin and end in iterations.'
            )
            continue
        yield from _half_period(name, item)
        if item.get('eta_max') and base_batch(training.cfg):
            yield (
                f'{name}: eta_max={item.eta_max:g} is the rate, whatever optimizer.lr is and'
                ' --auto-scale-lr makes of it. Set eta_max for your batch.'
            )
        unit = training.epoch_length if by_epoch else 1
        end = item.get('end')
        last = end * unit if end else training.iterations
        if _is_warmup(item):
            warmups[name] = last
        else:
            constant = constant and item.type == 'ConstantLR' and item.get('factor') == 1
            milestones = [step * unit + 1 for step in item.get('milestones') or ()]
            falls[name] = max([last, *milestones])
    for name, last in warmups.items():
        if last >= min([training.iterations, *falls.values()]):
            yield (
                f'{name}: the warm-up ends at iteration {last:,}, after the training or its'
                ' schedule. Shorten it.'
            )
    if not constant:
        yield from _schedule_end(training, max(falls.values()))


def _half_period(name: str, item: dict) -> Iterator[str]:
    half = item.get('T_max')
    begin = item.get('begin') or 0
    end = item.get('end')
    if half and end and half != end - begin:
        yield (
            f'{name}: expected T_max = end - begin = {end - begin}, got {half}, so the'
            ' rate rises again or does not reach its minimum. Remove T_max.'
        )


def _is_warmup(item: dict) -> bool:
    rises = item.get('start_factor', 1 / 3) < item.get('end_factor', 1)
    return item['type'] == 'LinearLR' and not item.get('begin') and rises


def _schedule_end(training: Training, last: int) -> Iterator[str]:
    total = training.iterations
    if last == total:
        return
    effect = 'then the rate is constant'
    if last > total:
        effect = f'where the rate is still {training.last_rate:.3g}'
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
    cfg, model = training.cfg, training.cfg.model
    weights = training.model.named_parameters()
    frozen = [name for name, parameter in weights if not parameter.requires_grad]
    init_cfgs = [model.get('init_cfg'), (model.get('backbone') or {}).get('init_cfg')]
    loaded = cfg.get('load_from') or model.get('pretrained') or 'checkpoint' in str(init_cfgs)
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
    if training.cfg.train_dataloader.batch_size > 1:
        return
    frozen = getattr(getattr(training.model, 'backbone', None), 'norm_eval', False)
    norms = []
    for name, module in training.model.named_modules():
        # Synchronised batch norm averages over the images of all GPUs.
        synchronised = isinstance(module, SyncBatchNorm) and training.gpus > 1
        uses_averages = frozen and name.startswith('backbone.')
        if isinstance(module, _BatchNorm) and not synchronised and not uses_averages:
            norms.append(name)
    if norms:
        yield (
            f'train_dataloader.batch_size: batch norm ({len(norms)} layers, such as'
            f' model.{norms[0]}) needs several images per device, got 1: pooled maps of one pixel'
            ' end in an error. Raise it, or set norm_cfg to GN.'
        )


def _larger_images(training: Training) -> Iterator[str]:
    trained = _pixels(training.cfg.get('train_dataloader') or {})
    tested = _pixels(training.cfg.get('test_dataloader') or {})
    if not trained or tested < 4 * trained:
        return
    for name, part in training.model.named_modules():
        if isinstance(part, _BARE_MIXERS) and not part.local_terms():
            what = 'agents, InLine and MALA without a convolution can lose'
        elif isinstance(part, RotaryMixer) and part.rotary:
            what = 'rotary positions can lose'
        else:
            continue
        yield (
            f'test_dataloader: {tested / trained:.1f} times the pixels of training, where {what}'
            f' accuracy ({name}; lab/docs/third_study.md). Train at this size.'
        )
        return  # the first layer stands for all


def _pixels(loader: dict) -> int:
    """Pixels of an image behind the last step that sets its size, of the largest size if there are
    several.

    A size that keeps the ratio counts as the square of its shorter side; 0 if no step sets one.
    """
    found = 0
    for step in first_config(loader.get('dataset') or {}).get('pipeline') or ():
        size = step.get('scales') or step.get('crop_size') or step.get('scale') or ()
        keeps_ratio = step.get('keep_ratio', 'scales' in step)  # RandomChoiceResize does
        areas = []
        for pair in np.atleast_2d(np.array(size, float)):
            sides = [int(side) for side in pair if side > 0]  # an open side, None, is NaN
            if sides:
                areas.append(min(sides) ** 2 if keeps_ratio else sides[0] * sides[-1])
        if areas:
            found = max(areas)
    return found


def _objects(training: Training) -> Iterable[str]:
    return too_few_boxes(training.cfg.model, training.most_objects)


CHECKS: dict[str, Callable[[Training], Iterable[str]]] = {
    'batch': _batch,
    'schedule': _schedule,
    'ema-length': _averages,
    'frozen': _frozen,
    'checkpoints': _checkpoints,
    'classes': _classes,
    'objects': _objects,
    'batch-norm': _single_samples,
    'larger-images': _larger_images,
}
