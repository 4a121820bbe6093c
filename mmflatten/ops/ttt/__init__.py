"""Test-time training."""

from mmflatten.ops.ttt.operator import (
    conv_test_time_training,
    gated_test_time_training,
    swiglu_test_time_training,
)

__all__ = [
    'conv_test_time_training',
    'gated_test_time_training',
    'swiglu_test_time_training',
]
