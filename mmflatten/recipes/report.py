"""A training on one screen: how long it is, its rates, what decays, what it leaves on the disk, and its slips."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from mmflatten.recipes.checks import RecipeWarning
from mmflatten.recipes.disk import checkpoints_of, validation_interval
from mmflatten.recipes.parameters import ParameterGroup, by_decay, by_rate
from mmflatten.recipes.recipe import Recipe, base_batch, plain, steps
from mmflatten.recipes.training import Training
from mmflatten.text_table import align

_SAME = 1e-6  # relative; schedulers multiply step by step and round


def render_report(training: Training, warnings: Sequence[RecipeWarning]) -> str:
    """The whole screen."""
    facts = _facts(training)
    width = max(map(len, facts))
    lines = [f'{name.ljust(width)}  {text}' for name, text in facts.items()]
    slips = [f'warning ({warning.name}): {warning.text}' for warning in warnings] or ['no warnings']
    return '\n'.join([*lines, '', _rates(training), '', _decay(training), '', *slips])


def _facts(training: Training) -> dict[str, str]:
    data, recipe = training.data, Recipe.of(training.cfg)
    epochs = training.images_seen / data.images
    unit = f' = {training.length} epochs of {training.epoch_length:,}' if training.by_epoch else ''
    return {
        'data': f'{data.name}, {data.images:,} images ({data.source}); {training.images_seen:,} seen, '
                f'{epochs:.3g} times each',
        'batch': _batch(training),
        'length': f'{training.iterations:,} iterations{unit}',
        'schedule': recipe.schedule,
        'warm-up': _warmup(training),
        'validation': _validation(training),
        'EMA': recipe.ema,
        'checkpoints': _checkpoints(training),
    }


def _batch(training: Training) -> str:
    images, counts, base = training.cfg.train_dataloader.batch_size, steps(training.cfg), base_batch(training.cfg)
    factors = [f'{training.gpus} GPU{"s"[:training.gpus > 1]}', str(images), *[f'{counts} accumulated'] * (counts > 1)]
    meant = f'the rate is for {base}' if base else 'auto_scale_lr.base_batch_size does not say what the rate is for'
    scaled = f' and scaled by {training.lr_factor:g}' if training.lr_factor != 1 else ''
    return f'{training.batch} = {" x ".join(factors)}; {meant}{scaled}'


def _warmup(training: Training) -> str:
    """How long the rate rises, read off the rates themselves."""
    peak = _peak(next(iter(training.rates.values())))
    return f'{peak:,} iterations, {100 * peak / training.iterations:.2g} % of the training' if peak else 'none'


def _peak(rates: Sequence[float]) -> int:
    highest = max(rates) * (1 - _SAME)
    return next(index for index, rate in enumerate(rates) if rate >= highest)


def _validation(training: Training) -> str:
    if training.cfg.get('val_cfg') is None:
        return 'never'
    begin, every = training.cfg.train_cfg.get('val_begin', 1), validation_interval(training)
    times = len({*range(every, training.length, every), training.length} - set(range(begin)))
    return f'every {_units(training, every)}, {times} times'


def _units(training: Training, number: int) -> str:
    unit = 'epoch' if training.by_epoch else 'iteration'
    return unit if number == 1 else f'{number} {unit}s'


def _checkpoints(training: Training) -> str:
    found = checkpoints_of(training)
    if not found.written:
        return 'none'
    parts = [('weights', found.weights), ('EMA', found.averages), ('optimizer', found.optimizer)]
    sizes = ', '.join(f'{name} {size(number)}' for name, number in parts if number)
    return (f'every {_units(training, found.interval)}, {found.written} of {size(found.size)} ({sizes}); '
            f'{found.kept} kept, at most {size(found.most)} on the disk')


def size(number: int) -> str:
    """Bytes as people write them, such as 345 MB."""
    for unit in ('B', 'kB', 'MB'):
        if number < 1000:
            return f'{number:.0f} {unit}'
        number /= 1000
    return f'{number:.1f} GB'


def _rates(training: Training) -> str:
    groups = by_rate(training.model, training.optimizer)
    rows = []
    for base, rates in training.rates.items():
        numbers = (rates[0], max(rates), rates[-1])
        rows.append((plain(base), *_counts(groups, base), *map(plain, numbers)))
    hidden = len({group['lr'] for group in training.optimizer.param_groups}) - len(rows)
    more = f'\n({hidden} rates between these are not shown)' if hidden else ''
    return align(rows, ('rate', 'parameters', 'tensors', 'start', 'peak', 'end'), {0}) + more


def _decay(training: Training) -> str:
    groups = by_decay(training.model, training.optimizer)
    rows = [('frozen' if decay is None else plain(decay), *_counts(groups, decay), ', '.join(group.kinds))
            for decay, group in groups.items()]
    return align(rows, ('weight decay', 'parameters', 'tensors', 'of'), {0, 3})


def _counts(groups: Mapping[float | None, ParameterGroup], key: float | None) -> tuple[str, str]:
    group = groups.get(key, ParameterGroup())
    return (f'{group.numbers / 1e6:.3f} M', str(group.tensors))
