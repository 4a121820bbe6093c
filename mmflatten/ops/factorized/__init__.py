"""Factorized (efficient) attention and its conventional forms."""

from mmflatten.ops.factorized.operator import (
    conventional_dot_attention,
    conventional_gaussian_attention,
    efficient_attention,
    factorized_dot_attention,
)

__all__ = [
    'conventional_dot_attention',
    'conventional_gaussian_attention',
    'efficient_attention',
    'factorized_dot_attention',
]
