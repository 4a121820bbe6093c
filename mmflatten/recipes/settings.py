"""Training settings of a config, as values and as text."""
from __future__ import annotations

import re
from pathlib import Path

from mmengine.config import Config, ConfigDict

_GPUS = re.compile(r'_(\d+)xb(\d+)')


def gpus_of(cfg: Config) -> int:
    """Number of GPUs in the config's name (`8xb128`), or else the number that gives its base batch size."""
    name = _GPUS.search(Path(cfg.filename or '').stem)
    per_gpu = cfg.train_dataloader.batch_size * grad_accum_steps(cfg)
    return int(name[1]) if name else max(1, base_batch(cfg) // per_gpu)


def base_batch(cfg: Config) -> int:
    """Batch size that the learning rate is for (`auto_scale_lr.base_batch_size`), 0 if the config does not say."""
    return (cfg.get('auto_scale_lr') or {}).get('base_batch_size') or 0


def grad_accum_steps(cfg: Config) -> int:
    return cfg.optim_wrapper.get('accumulative_counts', 1)


def schedulers(cfg: Config) -> list[ConfigDict]:
    """Return `param_scheduler` as a list."""
    items = cfg.get('param_scheduler') or []
    return [items] if isinstance(items, dict) else list(items)


def ema_hooks(cfg: Config) -> list[ConfigDict]:
    return [hook for hook in cfg.get('custom_hooks') or [] if str(hook.get('type')).endswith('EMAHook')]


def ema_momentum(hook: ConfigDict) -> float:
    """Weight of the new parameters in each update of the average."""
    return hook.get('momentum', 0.0002)  # MMEngine's default


def training_length(cfg: Config) -> tuple[int, str]:
    """Length of the training and its unit, 'epochs' or 'iterations'."""
    loop = cfg.train_cfg
    return (loop.max_epochs, 'epochs') if loop.get('max_epochs') else (loop.max_iters, 'iterations')


def plain(value: float) -> str:
    """Format a number as papers do: 2e-4, 0.05, 1."""
    if value == 0 or abs(value) >= 0.01:
        return f'{value:.6g}'
    mantissa, exponent = f'{value:.2e}'.split('e')
    return f'{float(mantissa):g}e{int(exponent)}'


def describe_schedule(cfg: Config) -> str:
    number, unit = training_length(cfg)
    peak = cfg.optim_wrapper.optimizer.lr
    return ', '.join([f'{number} {unit}', *(_describe_scheduler(item, peak) for item in schedulers(cfg))])


def _describe_scheduler(item: ConfigDict, peak: float) -> str:
    unit = 'epochs' if item.get('by_epoch', True) else 'iterations'
    begin, end = item.get('begin', 0), item.get('end')
    lowest = plain(item['eta_min_ratio'] * peak if item.get('eta_min_ratio') else item.get('eta_min', 0))
    at = f'{unit[:-1]} {end}' if end else 'the end'
    since = f' from {unit[:-1]} {begin}' if begin else ''
    if item.type == 'LinearLR':
        return f'linear warm-up of {end - begin} {unit} from {plain(item.start_factor * peak)}'
    if item.type == 'MultiStepLR':
        counted = unit if len(item.milestones) > 1 else unit[:-1]
        return f'times {plain(item.get("gamma", 0.1))} after {counted} {" and ".join(map(str, item.milestones))}'
    if item.type == 'ConstantLR':
        return f'constant to {at}' if item.get('factor') == 1 else f'times {plain(item.get("factor"))} to {at}'
    if item.type == 'CosineAnnealingLR':
        return f'cosine{since} down to {lowest} at {at}'
    if item.type == 'PolyLR':
        power = item.get('power', 1)
        shape = 'linear' if power == 1 else f'polynomial ({plain(power)})'
        return f'{shape}{since} down to {lowest} at {at}'
    return f'{item.type}{since} to {at}'


def describe_ema(cfg: Config) -> str:
    words = []
    for hook in ema_hooks(cfg):
        every = hook.get('interval', 1)
        words.append(f'decay {1 - ema_momentum(hook):.6g}' + (f' every {every} iterations' if every > 1 else ''))
        if str(hook.type).endswith('MesaEMAHook'):
            words.append(f'MESA of weight {plain(hook.get("weight", 1))}')
    return ', '.join(words) or 'none'
