"""Focal attention."""

from mmflatten.ops.focal.operator import (
    focal_attention,
    neighbor_offsets,
    pooled_keys,
    resize_neighbor_bias,
    visible_keys,
    window_order,
    window_positions,
)

__all__ = [
    'focal_attention',
    'neighbor_offsets',
    'pooled_keys',
    'resize_neighbor_bias',
    'visible_keys',
    'window_order',
    'window_positions',
]
