"""Attention classes in the model of a config."""
from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmflatten.models.backbones import MLLA, HViTTT
from mmflatten.models.backbones.letters import FOCUSED, SOFTMAX, letter_mixers
from mmflatten.models.backbones.ravlt import MIXERS

FACTORIZED = dict(type='FactorizedAttention')
_SOFT = dict.fromkeys('SWVC', SOFTMAX)
# Default letters of a backbone, and the mixer of each letter; '' is for all other backbones.
DEFAULTS = {'': ('', dict(_SOFT, L=FOCUSED)), 'L2ViT': ('WL', dict(_SOFT, L=dict(type='ClampedLinearAttention'))),
            'ViT': ('S', dict(_SOFT, L=FOCUSED)), 'RAVLT': ('LLSS', MIXERS),
            'MLLA': ('L', dict(L=MLLA.attention)), 'HViTTT': ('L', dict(L=HViTTT.attention))}


def attentions_of(config: str | Path) -> str:
    """List the distinct attention classes without the suffix `Attention`, such as 'FocusedLinear, Softmax'."""
    model = Config.fromfile(config).model
    names = [mixer['type'].removeprefix('mmflatten.').removesuffix('Attention')
             for mixer in [*_mixers(model.get('backbone', {})), *_inserted(model)]]
    return ', '.join(dict.fromkeys(names))


def _mixers(backbone: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """List the configs of a backbone's token mixers, in the order of its letters."""
    kind = backbone.get('type', '').removeprefix('mmflatten.')
    if kind == 'FocalTransformer':
        return [dict(type='FocalAttention')]
    default, defaults = DEFAULTS.get(kind, DEFAULTS[''])
    letters = backbone.get('block_order' if kind == 'L2ViT' else 'attn_types', default)
    mixers = letter_mixers(backbone.get('mixers'), backbone.get('linear_attention'), defaults)
    return [mixers[letter] for letter in ''.join(letters).replace('M', 'LS') if letter in mixers]


def _inserted(model: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """List the configs of attentions between the layers of a backbone, a neck or PSMNet."""
    necks = model.get('neck') or []
    parts = [model.get('backbone', {}), *([necks] if isinstance(necks, Mapping) else necks)]
    mixers = [part.get('attention') or FACTORIZED for part in parts if part.get('attention_after')]
    return mixers + [model['attention']] if model.get('attention') else mixers
