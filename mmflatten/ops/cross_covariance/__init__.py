"""Attention between channels (XCA)."""

from mmflatten.ops.cross_covariance.operator import cross_covariance_attention

__all__ = [
    'cross_covariance_attention',
]
