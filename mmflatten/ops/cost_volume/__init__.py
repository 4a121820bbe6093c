"""Stereo matching: cost volume and disparity regression."""

from mmflatten.ops.cost_volume.operator import concat_cost_volume, soft_argmax_disparity

__all__ = [
    'concat_cost_volume',
    'soft_argmax_disparity',
]
