"""Detectors' parts: `AttentionResNet`, `AttentionResNeXt`, `AttentionFPN`, and `SimpleFeaturePyramid`.

The first three extend classes of mmdet, whose import takes seconds that a classifier need not spend and which need not
be there. So the registry holds a function for each, which imports the class when a config builds it.
"""
from __future__ import annotations

from importlib import import_module
from typing import Any

from torch import nn

from mmflatten.models.necks.simple_feature_pyramid import SimpleFeaturePyramid
from mmflatten.registry import MODELS
from mmflatten.requirements import require

_MODULES = {
    'AttentionFPN': 'mmflatten.models.necks.attention_fpn',
    'AttentionResNet': 'mmflatten.models.necks.attention_resnet',
    'AttentionResNeXt': 'mmflatten.models.necks.attention_resnet',
}
__all__ = ['AttentionFPN', 'AttentionResNeXt', 'AttentionResNet', 'SimpleFeaturePyramid']


def __getattr__(name: str) -> type[nn.Module]:
    if name not in _MODULES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    require('mmdet')
    return getattr(import_module(_MODULES[name]), name)


def _register(name: str) -> None:

    def build(*args: Any, **kwargs: Any) -> nn.Module:
        return __getattr__(name)(*args, **kwargs)

    MODELS.register_module(name=name, module=build)


for _name in _MODULES:
    _register(_name)
