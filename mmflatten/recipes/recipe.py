"""The recipe of a config in short phrases, one for each setting."""
from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path

from mmengine.config import Config, ConfigDict

from mmflatten.recipes.augmentation import augmentation

_GPUS = re.compile(r'_(\d+)xb(\d+)')


@dataclass(frozen=True)
class Recipe:
    """What a config trains with; configs with equal fields are trained alike."""

    batch: str
    rate: str
    schedule: str
    decay: str
    augmentation: str
    drop_path: str
    ema: str

    @classmethod
    def of(cls, cfg: Config) -> Recipe:
        return cls(_batch(cfg), _rate(cfg), _schedule(cfg), _decay(cfg.optim_wrapper), augmentation(cfg),
                   _drop_path(cfg), _ema(cfg))


SETTINGS = tuple(field.name for field in fields(Recipe))


def plain(value: float) -> str:
    """A number as people write it: 2e-4, 0.05, 1."""
    if value == 0 or abs(value) >= 0.01:
        return f'{value:.6g}'
    mantissa, exponent = f'{value:.2e}'.split('e')
    return f'{float(mantissa):g}e{int(exponent)}'


def gpus_of(cfg: Config) -> int:
    """The GPUs that a config is written for: those of its name (`8xb128`), else what its base batch size asks for."""
    named = _GPUS.search(Path(cfg.filename or '').stem)
    return int(named[1]) if named else max(1, base_batch(cfg) // (cfg.train_dataloader.batch_size * steps(cfg)))


def base_batch(cfg: Config) -> int:
    """The batch that the rate is meant for (`auto_scale_lr.base_batch_size`); 0 where the config does not say."""
    return (cfg.get('auto_scale_lr') or {}).get('base_batch_size') or 0


def steps(cfg: Config) -> int:
    """Batches whose gradients are added up before the optimizer steps."""
    return cfg.optim_wrapper.get('accumulative_counts', 1)


def schedulers(cfg: Config) -> list[ConfigDict]:
    """`param_scheduler` as a list."""
    given = cfg.get('param_scheduler') or []
    return [given] if isinstance(given, dict) else list(given)


def averages(cfg: Config) -> list[ConfigDict]:
    """The hooks of the config that average weights."""
    return [hook for hook in cfg.get('custom_hooks') or [] if str(hook.get('type')).endswith('EMAHook')]


def ema_momentum(hook: ConfigDict) -> float:
    """How much of the new weights every update of an average takes."""
    return hook.get('momentum', 0.0002)  # MMEngine's default


def length(cfg: Config) -> tuple[int, str]:
    """How long a config trains, in 'epochs' or 'iterations'."""
    loop = cfg.train_cfg
    return (loop.max_epochs, 'epochs') if loop.get('max_epochs') else (loop.max_iters, 'iterations')


def _batch(cfg: Config) -> str:
    gpus, images = gpus_of(cfg), cfg.train_dataloader.batch_size
    factors = [f'{gpus} GPU{"s" if gpus > 1 else ""}', str(images), *[f'{steps(cfg)} steps'] * (steps(cfg) > 1)]
    return f'{gpus * images * steps(cfg)} ({" x ".join(factors)})'


def _rate(cfg: Config) -> str:
    optimizer, clip = cfg.optim_wrapper.optimizer, cfg.optim_wrapper.get('clip_grad')
    parts = [f'{optimizer.type} {plain(optimizer.lr)}']
    parts += [f'momentum {plain(optimizer.momentum)}'] if optimizer.get('momentum') else []
    decay = (cfg.optim_wrapper.get('paramwise_cfg') or {}).get('layer_decay_rate')
    parts += [f'{plain(decay)} of it per layer below the head'] if decay else []
    parts += [f'gradients clipped at {plain(clip.max_norm)}'] if clip else []
    return ', '.join(parts)


def _schedule(cfg: Config) -> str:
    number, unit = length(cfg)
    peak = cfg.optim_wrapper.optimizer.lr
    return ', '.join([f'{number} {unit}', *(_phase(item, peak) for item in schedulers(cfg))])


def _phase(item: ConfigDict, peak: float) -> str:
    """A scheduler in words."""
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
        return f'{"linear" if power == 1 else f"polynomial ({plain(power)})"}{since} down to {lowest} at {at}'
    return f'{item.type}{since} to {at}'


def _decay(wrapper: ConfigDict) -> str:
    weight_decay, rules = wrapper.optimizer.get('weight_decay'), wrapper.get('paramwise_cfg') or {}
    if not weight_decay:
        return 'none'
    rest = [(name, rules[f'{rule}_decay_mult']) for rule, name in
            (('norm', 'norms'), ('bias', 'biases'), ('dwconv', 'depthwise convolutions'), ('flat', 'other vectors'))
            if f'{rule}_decay_mult' in rules]
    rest += [(f'`{key}`', rule['decay_mult']) for key, rule in (rules.get('custom_keys') or {}).items()
             if 'decay_mult' in rule]
    spared = [name for name, factor in rest if factor == 0]
    other = [f'{name} times {plain(factor)}' for name, factor in rest if factor != 0]
    scope = f'for all but {", ".join(spared)}' if spared else 'for everything'
    return '; '.join([f'{plain(weight_decay)} {scope}', *other])


def _drop_path(cfg: Config) -> str:
    rate = cfg.model.get('backbone', {}).get('drop_path_rate')
    return plain(rate) if rate else 'none'


def _ema(cfg: Config) -> str:
    words = []
    for hook in averages(cfg):
        every = hook.get('interval', 1)
        words.append(f'decay {1 - ema_momentum(hook):.6g}' + (f' every {every} iterations' if every > 1 else ''))
        if str(hook.type).endswith('MesaEMAHook'):
            words.append(f'MESA of weight {plain(hook.get("weight", 1))}')
    return ', '.join(words) or 'none'
