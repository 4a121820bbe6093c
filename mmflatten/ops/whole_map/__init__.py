"""Attentions between the tokens of a whole map."""

from mmflatten.ops.whole_map.operator import (
    circulant_attention,
    manhattan_attention,
    neighborhood_attention,
    routed_regions,
    routing_attention,
)

__all__ = [
    'circulant_attention',
    'manhattan_attention',
    'neighborhood_attention',
    'routed_regions',
    'routing_attention',
]
