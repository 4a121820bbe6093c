"""Recipe of a config as short phrases, one for each setting."""
from __future__ import annotations

from dataclasses import dataclass, fields

from mmengine.config import Config, ConfigDict
from recipe_page.augmentation import augmentation

from mmflatten.recipes.settings import describe_ema, describe_schedule, gpus_of, grad_accum_steps, plain


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
