"""Parts of detectors: backbones and necks with attention, a head, test-time augmentation.

Those that use mmdet or mmcv are imported when a config builds them: mmdet's import takes seconds that a classifier
need not spend, and neither need be there. So the registry holds a function for each.
"""
from __future__ import annotations

from importlib import import_module
from typing import Any

from torch import nn

from mmflatten.models.detection.simple_feature_pyramid import SimpleFeaturePyramid
from mmflatten.registry import MODELS

_BUILT_LATER = {
    'AttentionFPN': 'attention_fpn',
    'AttentionResNeXt': 'attention_resnet',
    'AttentionResNet': 'attention_resnet',
    'BiFPN': 'bifpn',
    'InstanceTTAModel': 'instance_tta',
    'RepPointsV2Head': 'reppoints_v2_head',
}
__all__ = ['AttentionFPN', 'AttentionResNeXt', 'AttentionResNet', 'BiFPN', 'InstanceTTAModel',
           'RepPointsV2Head', 'SimpleFeaturePyramid']


def __getattr__(name: str) -> type[nn.Module]:
    if name not in _BUILT_LATER:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(import_module(f'{__name__}.{_BUILT_LATER[name]}'), name)


def _register(name: str) -> None:

    def build(*args: Any, **kwargs: Any) -> nn.Module:
        return __getattr__(name)(*args, **kwargs)

    MODELS.register_module(name=name, module=build)


for _name in _BUILT_LATER:
    _register(_name)
