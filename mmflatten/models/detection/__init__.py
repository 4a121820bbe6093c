"""Parts of detectors: backbones and necks with attention, and heads.

Only `SimpleFeaturePyramid` works without mmdet and mmcv. The registry imports the other classes on
first use.
"""

from __future__ import annotations

from typing import Any

from mmflatten.models.detection.simple_feature_pyramid import SimpleFeaturePyramid
from mmflatten.registry import MODELS

__all__ = [
    'ATSSHead',
    'AttentionFPN',
    'AttentionResNeXt',
    'AttentionResNet',
    'BiFPN',
    'RepPointsV2Head',
    'SimpleFeaturePyramid',
]


def __getattr__(name: str) -> Any:
    if name not in MODELS.on_demand:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return MODELS.get(name)
