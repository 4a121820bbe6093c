"""State spaces without an order of the tokens."""

from mmflatten.ops.state_space.operator import hidden_state_attention, state_space_attention

__all__ = [
    'hidden_state_attention',
    'state_space_attention',
]
