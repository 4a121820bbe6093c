"""Common mistakes in recipes, found before the first step."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mmengine.config import ConfigDict
from mmengine.registry import DATASETS, DefaultScope

from mmflatten.recipes.disk import checkpoint_interval
from mmflatten.recipes.parameters import parameters_by
from mmflatten.recipes.settings import base_batch, ema_hooks, ema_momentum, plain, schedulers
from mmflatten.recipes.training import Training

_HEADS = ('head', 'decode_head', 'auxiliary_head', 'bbox_head', 'mask_head', 'roi_head.bbox_head', 'roi_head.mask_head')


@dataclass(frozen=True)
class RecipeWarning:
    """Name of a check, and what is wrong and how to correct it."""

    name: str
    text: str


def warnings_of(training: Training) -> list[RecipeWarning]:
    """Run all checks, in the order of `CHECKS`."""
    return [RecipeWarning(name, text) for name, check in CHECKS.items() for text in check(training)]


def _batch(training: Training) -> Iterator[str]:
    base, batch = base_batch(training.cfg), training.batch
    if base and base != batch and training.lr_factor == 1:
        yield (f'auto_scale_lr.base_batch_size: the learning rate is for a batch of {base}, got {batch}. Train with '
               f'--auto-scale-lr, which multiplies the rate by {batch / base:g}, or set batch_size or '
               'optim_wrapper.accumulative_counts.')


def _unit(training: Training) -> Iterator[str]:
    for index, item in enumerate(schedulers(training.cfg)):
        if not _has_wrong_unit(training, item):
            continue
        if training.by_epoch:
            yield (f'param_scheduler.{index} ({item.type}): counts iterations and ends after {_last(training, item)} '
                   f'of {training.iterations:,}. If these are epochs, set by_epoch=True.')
        else:
            yield (f'param_scheduler.{index} ({item.type}): counts epochs, but the training loop counts iterations, so '
                   'it never steps. Set by_epoch=False and give begin and end in iterations.')


def _warmup(training: Training) -> Iterator[str]:
    items = _with_right_unit(training)
    last = min([training.iterations, *[_end(training, item) for item in items if not _is_warmup(item)]])
    for item in items:
        if _is_warmup(item) and not item.get('begin') and _end(training, item) >= last:
            yield (f'param_scheduler ({item.type}): the warm-up ends at iteration {_end(training, item):,}, the '
                   f'schedule or the training at {last:,}. Shorten the warm-up.')


def _cosine(training: Training) -> Iterator[str]:
    for index, item in enumerate(schedulers(training.cfg)):
        half, length = item.get('T_max'), (item.get('end') or 0) - item.get('begin', 0)
        if half and item.get('end') and half != length:
            effect = 'rises again' if half < length else 'does not reach its minimum'
            yield (f'param_scheduler.{index}.T_max ({item.type}): expected end - begin = {length}, got {half}, so the '
                   f'rate {effect}. Remove T_max.')


def _schedule_end(training: Training) -> Iterator[str]:
    falling = [item for item in _with_right_unit(training) if not _is_warmup(item)]
    if all(item.type == 'ConstantLR' and item.get('factor') == 1 for item in falling):
        return
    end, total = max(_end(training, item) for item in falling), training.iterations
    last = max(max(_end(training, item), _last(training, item) * _unit_length(training, item)) for item in falling)
    late = any(item.get('milestones') and _last(training, item) * _unit_length(training, item) >= total
               for item in falling)
    if end < total:
        yield (f'param_scheduler: the schedule ends after {end:,} of {total:,} iterations, then the rate is constant. '
               'Set its end to the length of the training.')
    elif end > total or late:
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


def _checkpoints(training: Training) -> Iterator[str]:
    interval, unit = checkpoint_interval(training), 'epochs' if training.by_epoch else 'iterations'
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
    classes = _num_classes(training.cfg.train_dataloader.dataset, training.cfg.get('default_scope', 'mmengine'))
    for name, module in training.model.named_modules():
        number = getattr(module, 'num_classes', None)
        if classes and isinstance(number, int) and name.rstrip('.0123456789') in _HEADS and number != classes:
            yield (f'model.{name}.num_classes: the training set has {classes} classes, got {number}. Correct it, or '
                   'set metainfo=dict(classes=...) of the data set.')


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


def _num_classes(dataset: ConfigDict, scope: str) -> int:
    """Number of classes in `metainfo` or in the class of the data set, 0 if it is only known after reading it."""
    while 'dataset' in dataset or 'datasets' in dataset:
        dataset = dataset.get('dataset') or dataset.datasets[0]
    metainfo = dataset.get('metainfo') or {}
    if 'classes' not in metainfo:
        with DefaultScope.overwrite_default_scope(scope), DATASETS.switch_scope_and_registry(None) as registry:
            cls = registry.get(dataset.type)
            if not isinstance(cls, type):  # a function that builds the data set
                cls = registry.build({**dataset, 'pipeline': [], 'lazy_init': True})
            metainfo = getattr(cls, 'METAINFO', {})
    return len(metainfo.get('classes') or ())


def _validates(training: Training) -> bool:
    parts = (training.cfg.get(name) is not None for name in ('val_cfg', 'val_dataloader', 'val_evaluator'))
    return all(parts) and training.cfg.train_cfg.get('val_begin', 1) <= training.length


def _has_wrong_unit(training: Training, item: ConfigDict) -> bool:
    """Return True if a scheduler counts epochs in a loop of iterations, or iterations where epochs are meant."""
    if item.get('by_epoch', True) or not training.by_epoch:
        return item.get('by_epoch', True) and not training.by_epoch
    return _last(training, item) <= training.length < training.iterations


def _with_right_unit(training: Training) -> list[ConfigDict]:
    return [item for item in schedulers(training.cfg) if not _has_wrong_unit(training, item)]


def _is_warmup(item: ConfigDict) -> bool:
    if item.type == 'LinearLR':
        return item.get('start_factor', 1 / 3) < item.get('end_factor', 1)
    return item.type == 'ConstantLR' and item.get('factor', 1 / 3) < 1


def _unit_length(training: Training, item: ConfigDict) -> int:
    """Iterations per unit of a scheduler."""
    return training.epoch_length if item.get('by_epoch', True) else 1


def _end(training: Training, item: ConfigDict) -> int:
    """Iteration at which a scheduler ends, by default with the training."""
    return item['end'] * _unit_length(training, item) if item.get('end') else training.iterations


def _last(training: Training, item: ConfigDict) -> int:
    """Last epoch or iteration, in the scheduler's unit, in which it changes the rate."""
    return max(item.milestones) if item.get('milestones') else item.get('end') or training.length
