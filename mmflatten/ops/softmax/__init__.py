"""Softmax attention, and its approximations through a few tokens."""

from mmflatten.ops.softmax.operator import agent_attention, nystrom_attention, softmax_attention

__all__ = [
    'agent_attention',
    'nystrom_attention',
    'softmax_attention',
]
