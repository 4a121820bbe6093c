"""Rotary position embedding."""

from mmflatten.ops.rotary.operator import rotary_1d, rotary_2d, rotary_normalized

__all__ = [
    'rotary_1d',
    'rotary_2d',
    'rotary_normalized',
]
