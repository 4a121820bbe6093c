"""Report of `mmflatten check`: length, batch, rates, weight decay, checkpoints and warnings."""
from __future__ import annotations

from collections.abc import Sequence

from mmflatten.recipes.parameters import ParameterGroup, parameters_by
from mmflatten.recipes.settings import base_batch, describe_ema, describe_schedule, grad_accum_steps, plain
from mmflatten.recipes.training import Training
from mmflatten.text import align


def render_report(training: Training, warnings: Sequence[tuple[str, str]]) -> str:
    seen = training.iterations * training.gpus * training.cfg.train_dataloader.batch_size
    unit = f' = {training.length} epochs of {training.epoch_length:,}' if training.by_epoch else ''
    facts = {
        'data': f'{training.data.name}, {training.data.images:,} images ({training.data.source}); {seen:,} seen, '
                f'{seen / training.data.images:.3g} times each',
        'batch': _batch(training),
        'length': f'{training.iterations:,} iterations{unit}',
        'schedule': describe_schedule(training.cfg),
        'warm-up': _warmup(training),
        'validation': _validation(training),
        'EMA': describe_ema(training.cfg),
        'checkpoints': _checkpoints(training),
    }
    width = max(map(len, facts))
    lines = [f'{name.ljust(width)}  {text}' for name, text in facts.items()]
    texts = [f'warning ({name}): {text}' for name, text in warnings] or ['no warnings']
    return '\n'.join([*lines, '', _rates(training), '', _decay(training), '', *texts])


def _batch(training: Training) -> str:
    steps, base = grad_accum_steps(training.cfg), base_batch(training.cfg)
    gpus = '1 GPU' if training.gpus == 1 else f'{training.gpus} GPUs'
    accumulated = f' x {steps} accumulated' if steps > 1 else ''
    meant = f'the rate is for {base}' if base else 'auto_scale_lr.base_batch_size is not set'
    scaled = f' and scaled by {training.lr_factor:g}' if training.lr_factor != 1 else ''
    per_gpu = training.cfg.train_dataloader.batch_size
    return f'{training.batch} = {gpus} x {per_gpu}{accumulated}; {meant}{scaled}'


def _warmup(training: Training) -> str:
    rates = next(iter(training.rates.values()))
    highest = max(rates) * (1 - 1e-6)  # schedulers multiply step by step and round
    peak = next(index for index, rate in enumerate(rates) if rate >= highest)
    return f'{peak:,} iterations, {100 * peak / training.iterations:.2g} % of the training' if peak else 'none'


def _validation(training: Training) -> str:
    if training.cfg.get('val_cfg') is None:
        return 'never'
    begin, every = training.cfg.train_cfg.get('val_begin', 1), training.val_interval
    times = len({*range(every, training.length, every), training.length} - set(range(begin)))
    return f'every {_units(training, every)}, {times} times'


def _units(training: Training, number: int) -> str:
    unit = 'epoch' if training.by_epoch else 'iteration'
    return unit if number == 1 else f'{number} {unit}s'


def _checkpoints(training: Training) -> str:
    files = training.checkpoints
    if not files.written:
        return 'none'
    parts = [('weights', files.weights), ('EMA', files.averages), ('optimizer', files.optimizer)]
    sizes = ', '.join(f'{name} {_size(number)}' for name, number in parts if number)
    return (f'every {_units(training, files.interval)}, {files.written} of {_size(files.size)} ({sizes}); '
            f'{files.kept} kept, at most {_size(files.most)} on the disk')


def _size(number: int) -> str:
    """Format bytes, such as '345 MB'."""
    for unit in ('B', 'kB', 'MB'):
        if number < 1000:
            return f'{number:.0f} {unit}'
        number /= 1000
    return f'{number:.1f} GB'


def _rates(training: Training) -> str:
    groups = parameters_by('lr', training.model, training.optimizer)
    rows = [(plain(base), *_counts(groups.get(base)), *map(plain, (rates[0], max(rates), rates[-1])))
            for base, rates in training.rates.items()]
    hidden = len({group['lr'] for group in training.optimizer.param_groups}) - len(rows)
    more = f'\n({hidden} rates between these are not shown)' if hidden else ''
    return align(rows, ('rate', 'parameters', 'tensors', 'start', 'peak', 'end'), {0}) + more


def _decay(training: Training) -> str:
    rows = [('frozen' if decay is None else plain(decay), *_counts(group), ', '.join(group.kinds))
            for decay, group in parameters_by('weight_decay', training.model, training.optimizer).items()]
    return align(rows, ('weight decay', 'parameters', 'tensors', 'of'), {0, 3})


def _counts(group: ParameterGroup | None) -> tuple[str, str]:
    """Millions of parameters, and tensors; None is a group whose parameters are all frozen."""
    return (f'{group.parameters / 1e6:.3f} M', str(group.tensors)) if group else ('0.000 M', '0')
