"""Common mistakes in recipes, found before the first step."""
from __future__ import annotations

from collections.abc import Callable, Iterator

from mmengine.config import ConfigDict

from mmflatten.classes import wrong_heads
from mmflatten.engine.datasets import read_metainfo
from mmflatten.recipes.parameters import parameters_by
from mmflatten.recipes.settings import base_batch, ema_hooks, ema_momentum, plain, schedulers, training_length
from mmflatten.recipes.training import Training


def warnings_of(training: Training) -> list[tuple[str, str]]:
    """Run all checks, in the order of `CHECKS`. A warning is the name of a check, and what is wrong with its fix."""
    return [(name, text) for name, check in CHECKS.items() for text in check(training)]


class _Scheduler:
    """A scheduler of the config.

    Attributes:
        name: its place in the config, and its type.
        end: iteration at which it ends, by default with the training.
        last: last epoch or iteration, in its own unit, in which it changes the rate.
        last_iteration: the iteration of `last`.
        wrong_unit: it counts epochs in a loop of iterations, or iterations where epochs are meant.
        is_warmup: it raises the rate.
    """

    def __init__(self, index: int, item: ConfigDict, training: Training) -> None:
        self.cfg, self.name, by_epoch = item, f'param_scheduler.{index} ({item.type})', item.get('by_epoch', True)
        unit = training.epoch_length if by_epoch else 1
        milestones, end = item.get('milestones'), item.get('end')
        self.end = end * unit if end else training.iterations
        self.last = max(milestones) if milestones else end or (training.length if by_epoch else training.iterations)
        self.last_iteration = self.last * unit
        self.is_warmup = (item.type == 'LinearLR' and item.get('start_factor', 1 / 3) < item.get('end_factor', 1)
                          or item.type == 'ConstantLR' and item.get('factor', 1 / 3) < 1)
        plausible = training.length / 6 if self.is_warmup else training.length  # as a number of epochs
        self.wrong_unit = by_epoch and not training.by_epoch or (
            not by_epoch and training.by_epoch and self.last <= plausible and training.length < training.iterations)


def _schedulers(training: Training) -> list[_Scheduler]:
    return [_Scheduler(index, item, training) for index, item in enumerate(schedulers(training.cfg))]


def _batch(training: Training) -> Iterator[str]:
    base, batch = base_batch(training.cfg), training.batch
    if base and base != batch and training.lr_factor == 1:
        yield (f'auto_scale_lr.base_batch_size: the learning rate is for a batch of {base}, got {batch}. Train with '
               f'--auto-scale-lr, which multiplies the rate by {batch / base:g}, or set batch_size or '
               'optim_wrapper.accumulative_counts.')


def _unit(training: Training) -> Iterator[str]:
    for scheduler in _schedulers(training):
        if scheduler.wrong_unit and training.by_epoch:
            yield (f'{scheduler.name}: counts iterations and ends after {scheduler.last} of {training.iterations:,}. '
                   'If these are epochs, set by_epoch=True.')
        elif scheduler.wrong_unit:
            yield (f'{scheduler.name}: counts epochs, but the training loop counts iterations, so it never steps. Set '
                   'by_epoch=False and give begin and end in iterations.')


def _warmup(training: Training) -> Iterator[str]:
    found = [scheduler for scheduler in _schedulers(training) if not scheduler.wrong_unit]
    last = min([training.iterations, *[scheduler.end for scheduler in found if not scheduler.is_warmup]])
    for scheduler in found:
        if scheduler.is_warmup and not scheduler.cfg.get('begin') and scheduler.end >= last:
            yield (f'{scheduler.name}: the warm-up ends at iteration {scheduler.end:,}, the schedule or the training '
                   f'at {last:,}. Shorten the warm-up.')


def _cosine(training: Training) -> Iterator[str]:
    for scheduler in _schedulers(training):
        half, begin, end = (scheduler.cfg.get(name, 0) for name in ('T_max', 'begin', 'end'))
        if half and end and half != end - begin:
            effect = 'rises again' if half < end - begin else 'does not reach its minimum'
            yield (f'{scheduler.name}: expected T_max = end - begin = {end - begin}, got {half}, so the rate {effect}. '
                   'Remove T_max.')


def _schedule_end(training: Training) -> Iterator[str]:
    falling = [scheduler for scheduler in _schedulers(training)
               if not scheduler.wrong_unit and not scheduler.is_warmup]
    if all(scheduler.cfg.type == 'ConstantLR' and scheduler.cfg.get('factor') == 1 for scheduler in falling):
        return
    end, total = max(scheduler.end for scheduler in falling), training.iterations
    if end < total:
        yield (f'param_scheduler: the schedule ends after {end:,} of {total:,} iterations, then the rate is constant. '
               'Set its end to the length of the training.')
    elif end > total or any(scheduler.cfg.get('milestones') and scheduler.last_iteration >= total
                            for scheduler in falling):
        last = max(end, *(scheduler.last_iteration for scheduler in falling))
        rate = max(rates[-1] for rates in training.rates.values())
        yield (f'param_scheduler: the schedule ends at iteration {last:,}, the training at {total:,}, where the rate '
               f'is still {plain(rate)}. Set its end and milestones to the length of the training.')


def _averages(training: Training) -> Iterator[str]:
    for hook in ema_hooks(training.cfg):
        if not _validates(training):
            yield ('EMAHook: the averaged weights are saved and tested but not validated during training. Set val_cfg, '
                   'val_dataloader and val_evaluator, or train_cfg.val_begin.')
        elif not hook.get('evaluate_on_ema', True):
            yield ('EMAHook.evaluate_on_ema: False validates other weights than those saved as state_dict. Remove it, '
                   'or set evaluate_on_ema=True and evaluate_on_origin=True.')


def _horizon(training: Training) -> Iterator[str]:
    for hook in ema_hooks(training.cfg):
        momentum = ema_momentum(hook)
        horizon = hook.get('interval', 1) / momentum
        if momentum > 0.5:
            yield (f'EMAHook.momentum: expected the small weight of the new parameters, got {momentum:g}. For a decay '
                   f'of {momentum:g} set momentum={1 - momentum:.6g}.')
        elif horizon > training.iterations:
            yield (f'EMAHook.momentum: averages over about {horizon:,.0f} iterations (interval / momentum) of a '
                   f'training of {training.iterations:,}, so the initial weights never fade. Raise momentum.')


def _frozen(training: Training) -> Iterator[str]:
    model = training.cfg.model
    frozen = [name for name, parameter in training.model.named_parameters() if not parameter.requires_grad]
    init_cfgs = [model.get('init_cfg'), (model.get('backbone') or {}).get('init_cfg')]
    loaded = training.cfg.get('load_from') or model.get('pretrained') or 'checkpoint' in str(init_cfgs)
    if frozen and not loaded:
        yield (f'frozen_stages: {len(frozen)} parameters ({frozen[0]}, ...) are frozen at random values because no '
               'checkpoint is loaded. Set load_from or backbone.init_cfg, or train them.')
    still = parameters_by('lr', training.model, training.optimizer).get(0.)
    if still:
        yield (f'lr_mult: {still.tensors} parameters ({", ".join(still.kinds)}) have gradients and a learning rate of '
               '0, which costs memory and time. Freeze them (frozen_stages), or correct lr_mult.')


def _validation(training: Training) -> Iterator[str]:
    if not _validates(training) and not ema_hooks(training.cfg):
        yield ('val_cfg: the model is never validated. Set val_cfg, val_dataloader and val_evaluator, and '
               f'train_cfg.val_begin to at most {training.length}.')


def _validates(training: Training) -> bool:
    parts = (training.cfg.get(name) is not None for name in ('val_cfg', 'val_dataloader', 'val_evaluator'))
    return all(parts) and training.cfg.train_cfg.get('val_begin', 1) <= training.length


def _checkpoints(training: Training) -> Iterator[str]:
    interval, unit = training.checkpoints.interval, training_length(training.cfg)[1]
    if not interval:
        yield 'default_hooks.checkpoint: no checkpoint is written. Set default_hooks.checkpoint.interval.'
    elif interval > training.length:
        yield (f'default_hooks.checkpoint.interval: {interval} {unit} of {training.length}, so an interrupted training '
               'starts over. Lower it, or train_cfg.val_interval.')


def _resume(training: Training) -> Iterator[str]:
    if training.cfg.get('load_from') and training.cfg.get('resume'):
        yield (f'load_from ({training.cfg.load_from}) with resume=True: continues at the iteration of that file, with '
               'its optimizer and schedule. To fine-tune, remove resume.')


def _classes(training: Training) -> Iterator[str]:
    classes = read_metainfo(training.cfg, 'train').get('classes') or ()
    yield from wrong_heads(training.model, len(classes), 'train_dataloader.dataset', exact=True)


CHECKS: dict[str, Callable[[Training], Iterator[str]]] = {
    'batch': _batch,
    'unit': _unit,
    'warm-up': _warmup,
    'cosine': _cosine,
    'schedule': _schedule_end,
    'ema': _averages,
    'ema-length': _horizon,
    'frozen': _frozen,
    'validation': _validation,
    'checkpoints': _checkpoints,
    'resume': _resume,
    'classes': _classes,
}
