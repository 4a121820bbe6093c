"""Recipe of a config as short phrases, one for each setting."""
from __future__ import annotations

from dataclasses import dataclass, fields

from mmengine.config import Config, ConfigDict
from recipe_page.augmentation import augmentation

from mmflatten.engine.recipe.settings import (
    ema_hooks,
    ema_momentum,
    gpus_of,
    grad_accum_steps,
    schedulers,
    training_length,
)


@dataclass(frozen=True)
class Recipe:
    """Training settings; configs with equal fields are trained alike."""

    batch: str
    rate: str
    schedule: str
    decay: str
    augmentation: str
    drop_path: str
    ema: str

    @classmethod
    def of(cls, cfg: Config) -> Recipe:
        drop_path = cfg.model.get('backbone', {}).get('drop_path_rate')
        return cls(_batch(cfg), _rate(cfg), describe_schedule(cfg), _decay(cfg.optim_wrapper), augmentation(cfg),
                   plain(drop_path) if drop_path else 'none', describe_ema(cfg))


SETTINGS = tuple(field.name for field in fields(Recipe))


def _batch(cfg: Config) -> str:
    gpus, images, steps = gpus_of(cfg), cfg.train_dataloader.batch_size, grad_accum_steps(cfg)
    factors = [f'{gpus} GPUs' if gpus > 1 else '1 GPU', str(images)]
    if steps > 1:
        factors.append(f'{steps} steps')
    return f'{gpus * images * steps} ({" x ".join(factors)})'


def _rate(cfg: Config) -> str:
    optimizer, clip = cfg.optim_wrapper.optimizer, cfg.optim_wrapper.get('clip_grad')
    parts = [f'{optimizer.type} {plain(optimizer.lr)}']
    if optimizer.get('momentum'):
        parts.append(f'momentum {plain(optimizer.momentum)}')
    decay = (cfg.optim_wrapper.get('paramwise_cfg') or {}).get('layer_decay_rate')
    if decay:
        parts.append(f'{plain(decay)} of it per layer below the head')
    if clip:
        parts.append(f'gradients clipped at {plain(clip.max_norm)}')
    return ', '.join(parts)


def _decay(wrapper: ConfigDict) -> str:
    weight_decay, rules = wrapper.optimizer.get('weight_decay'), wrapper.get('paramwise_cfg') or {}
    if not weight_decay:
        return 'none'
    factors = [(name, rules[f'{rule}_decay_mult']) for rule, name in
               (('norm', 'norms'), ('bias', 'biases'), ('dwconv', 'depthwise convolutions'), ('flat', 'other vectors'))
               if f'{rule}_decay_mult' in rules]
    factors += [(f'`{key}`', rule['decay_mult']) for key, rule in (rules.get('custom_keys') or {}).items()
                if 'decay_mult' in rule]
    without = [name for name, factor in factors if factor == 0]
    scaled = [f'{name} times {plain(factor)}' for name, factor in factors if factor != 0]
    scope = f'except {", ".join(without)}' if without else 'for all parameters'
    return '; '.join([f'{plain(weight_decay)} {scope}', *scaled])


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
