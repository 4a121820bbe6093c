"""The usual slips of a recipe, each found in a training before its first step."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mmengine.config import ConfigDict

from mmflatten.recipes.classes import class_mismatches
from mmflatten.recipes.disk import checkpoint_interval
from mmflatten.recipes.parameters import by_rate, frozen
from mmflatten.recipes.recipe import averages, base_batch, ema_momentum, plain, schedulers
from mmflatten.recipes.training import Training


@dataclass(frozen=True)
class RecipeWarning:
    """A slip: its name, and what is wrong and how to set it right."""

    name: str
    text: str


def warnings_of(training: Training) -> list[RecipeWarning]:
    """Every slip of a training, in the order of `CHECKS`."""
    return [RecipeWarning(name, text) for name, check in CHECKS.items() for text in check(training)]


def _batch(training: Training) -> Iterator[str]:
    base, given = base_batch(training.cfg), training.batch
    if base and base != given and training.lr_factor == 1:
        yield (f'the rate is for a batch of {base} (auto_scale_lr.base_batch_size) and this one is {given}: train with '
               f'--auto-scale-lr, which multiplies the rate by {given / base:g}, or set batch_size or '
               'optim_wrapper.accumulative_counts')


def _unit(training: Training) -> Iterator[str]:
    for index, item in enumerate(schedulers(training.cfg)):
        if not _counts_wrongly(training, item):
            continue
        if training.by_epoch:
            yield (f'param_scheduler.{index} ({item.type}) counts iterations and is over after {_last(training, item)} '
                   f'of {training.iterations:,}; if these are epochs, set by_epoch=True')
        else:
            yield (f'param_scheduler.{index} ({item.type}) counts epochs and the training loop iterations, so it never '
                   'steps; set by_epoch=False and give its begin and end in iterations')


def _warmup(training: Training) -> Iterator[str]:
    counted = _rightly_counted(training)
    last = min([training.iterations, *[_end(training, item) for item in counted if not _rises(item)]])
    for item in counted:
        if _rises(item) and not item.get('begin') and _end(training, item) >= last:
            yield (f'the warm-up ({item.type}) ends at iteration {_end(training, item):,}, and the schedule or the '
                   f'training at {last:,}; shorten the warm-up')


def _cosine(training: Training) -> Iterator[str]:
    for index, item in enumerate(schedulers(training.cfg)):
        half, length = item.get('T_max'), (item.get('end') or 0) - item.get('begin', 0)
        if half and item.get('end') and half != length:
            yield (f'param_scheduler.{index} ({item.type}) is at its lowest rate after T_max={half} and lasts {length} '
                   f'(end - begin), so the rate {"rises again" if half < length else "does not get there"}; leave '
                   'T_max out')


def _schedule_end(training: Training) -> Iterator[str]:
    falling = [item for item in _rightly_counted(training) if not _rises(item)]
    if all(item.type == 'ConstantLR' and item.get('factor') == 1 for item in falling):
        return
    end, total = max(_end(training, item) for item in falling), training.iterations
    late = [item for item in falling if _last(training, item) * _unit_length(training, item) >= total
            and item.get('milestones')]
    if end < total:
        yield (f'the schedule ends after {end:,} of {total:,} iterations and the rate stays where it is then; set the '
               'end of param_scheduler to the length of the training')
    elif end > total or late:
        yield (f'the schedule goes on to iteration {_last_change(training, falling):,} and the training ends at '
               f'{total:,}, where the rate is still {plain(max(rates[-1] for rates in training.rates.values()))}; set '
               'the end and the milestones of param_scheduler to the length of the training')


def _averages(training: Training) -> Iterator[str]:
    for hook in averages(training.cfg):
        if not _validates(training):
            yield ('the averaged weights are what is saved and tested, and nothing validates them during training; set '
                   'val_cfg, val_dataloader and val_evaluator, or train_cfg.val_begin')
        elif not hook.get('evaluate_on_ema', True):
            yield ('EMAHook has evaluate_on_ema=False: what is validated is not what is saved as state_dict; leave it '
                   'out, or add evaluate_on_origin=True beside evaluate_on_ema=True')


def _horizon(training: Training) -> Iterator[str]:
    for hook in averages(training.cfg):
        momentum = ema_momentum(hook)
        reach = hook.get('interval', 1) / momentum
        if momentum > 0.5:
            yield (f'EMAHook has momentum={momentum:g}, the share of the new weights, so it averages next to nothing; '
                   f'for a decay of {momentum:g} set momentum={1 - momentum:.6g}')
        elif reach > training.iterations:
            yield (f'EMAHook averages over about {reach:,.0f} iterations (interval / momentum) and the training has '
                   f'{training.iterations:,}: the first weights weigh on to the end; raise momentum')


def _frozen(training: Training) -> Iterator[str]:
    names, model = frozen(training.model), training.cfg.model
    starts = [model.get('init_cfg'), (model.get('backbone') or {}).get('init_cfg')]
    loaded = training.cfg.get('load_from') or model.get('pretrained') or 'checkpoint' in str(starts)
    if names and not loaded:
        yield (f'{len(names)} parameters are frozen ({names[0]}, ...) at random values, for no checkpoint is loaded; '
               'give load_from or backbone.init_cfg, or train them')
    still = by_rate(training.model, training.optimizer).get(0.)
    if still:
        yield (f'{still.tensors} parameters with gradients are in the optimizer at a rate of 0 '
               f'({", ".join(still.kinds)}): they cost memory and time and stay as they are; freeze them by '
               'requires_grad=False (frozen_stages), or correct lr_mult')


def _validation(training: Training) -> Iterator[str]:
    if not _validates(training) and not averages(training.cfg):
        yield ('the model is never validated: set val_cfg, val_dataloader and val_evaluator, and train_cfg.val_begin '
               f'to at most {training.length}')


def _checkpoints(training: Training) -> Iterator[str]:
    interval, unit = checkpoint_interval(training), 'epochs' if training.by_epoch else 'iterations'
    if not interval:
        yield 'no checkpoint is written: set default_hooks.checkpoint.interval'
    elif interval > training.length:
        yield (f'a checkpoint every {interval} {unit} of {training.length}: an interrupted training starts anew; lower '
               'default_hooks.checkpoint.interval or train_cfg.val_interval')


def _resume(training: Training) -> Iterator[str]:
    cfg = training.cfg
    if cfg.get('load_from') and cfg.get('resume'):
        yield (f'load_from ({cfg.load_from}) and resume=True: the training goes on at the iteration of that file, with '
               'its optimizer and schedule; to fine-tune it, leave resume out')


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
    'classes': class_mismatches,
}


def _validates(training: Training) -> bool:
    parts = (training.cfg.get(name) is not None for name in ('val_cfg', 'val_dataloader', 'val_evaluator'))
    return all(parts) and training.cfg.train_cfg.get('val_begin', 1) <= training.length


def _counts_wrongly(training: Training, item: ConfigDict) -> bool:
    """Whether a scheduler counts epochs in a loop of iterations, or iterations where epochs are meant."""
    if item.get('by_epoch', True) or not training.by_epoch:
        return item.get('by_epoch', True) and not training.by_epoch
    return _last(training, item) <= training.length < training.iterations


def _rightly_counted(training: Training) -> list[ConfigDict]:
    return [item for item in schedulers(training.cfg) if not _counts_wrongly(training, item)]


def _rises(item: ConfigDict) -> bool:
    return item.get('start_factor', 1 / 3) < item.get('end_factor', 1) if item.type == 'LinearLR' else (
        item.type == 'ConstantLR' and item.get('factor', 1 / 3) < 1)


def _unit_length(training: Training, item: ConfigDict) -> int:
    """Iterations of what a scheduler counts."""
    return training.epoch_length if item.get('by_epoch', True) else 1


def _end(training: Training, item: ConfigDict) -> int:
    """The iteration at which a scheduler ends, by default with the training."""
    return item['end'] * _unit_length(training, item) if item.get('end') else training.iterations


def _last(training: Training, item: ConfigDict) -> int:
    """The last epoch or iteration, as the scheduler counts, in which it changes the rate."""
    return max(item.milestones) if item.get('milestones') else item.get('end') or training.length


def _last_change(training: Training, items: list[ConfigDict]) -> int:
    return max(max(_end(training, item), _last(training, item) * _unit_length(training, item)) for item in items)
