"""Heads of one-stage detectors: `RepPointsV2Head`.

It extends a class of mmdet, whose import takes seconds that a classifier need not spend and which need not be there. So
the registry holds a function, which imports the class when a config builds it.
"""
from __future__ import annotations

from importlib import import_module
from typing import Any

from torch import nn

from mmflatten.registry import MODELS
from mmflatten.requirements import require

__all__ = ['RepPointsV2Head']


def __getattr__(name: str) -> type[nn.Module]:
    if name != 'RepPointsV2Head':
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    require('mmdet')
    return import_module('mmflatten.models.dense_heads.reppoints_v2_head').RepPointsV2Head


@MODELS.register_module(name='RepPointsV2Head')
def _build_reppoints_v2_head(*args: Any, **kwargs: Any) -> nn.Module:
    return __getattr__('RepPointsV2Head')(*args, **kwargs)
