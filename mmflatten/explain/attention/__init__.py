"""Attention weights of any mixer, computed without its formula."""

from mmflatten.explain.attention.layer import AttentionLayer, AttentionProbe
from mmflatten.explain.attention.statistics import effective_rank, entropy, rank, singular_values

__all__ = [
    'AttentionLayer',
    'AttentionProbe',
    'effective_rank',
    'entropy',
    'rank',
    'singular_values',
]
