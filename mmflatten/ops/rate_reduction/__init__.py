"""Attentions derived as gradient steps on a rate of compression."""

from mmflatten.ops.rate_reduction.operator import (
    contract_and_broadcast_attention,
    token_statistics_attention,
)

__all__ = [
    'contract_and_broadcast_attention',
    'token_statistics_attention',
]
