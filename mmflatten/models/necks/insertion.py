"""What the networks with inserted attention share: positions as the paper counts them, and the modules."""
from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from mmflatten.registry import MODELS

DEFAULT_ATTENTION = dict(type='FactorizedAttention')


def check_positions(attention_after: Sequence[int], number: int, what: str) -> tuple[int, ...]:
    """`attention_after` as a sorted tuple of numbers from 1 to `number`.

    Raises:
        ValueError: no sequence of integers, repeated or out of range.
    """
    positions = attention_after
    if (isinstance(positions, str) or not isinstance(positions, Sequence)
            or not all(isinstance(position, int) and 1 <= position <= number for position in positions)
            or len(set(positions)) != len(positions)):
        raise ValueError(f'attention_after ({positions!r}) must be different numbers from 1 to {number}, one for each '
                         f'{what} behind which attention is wanted; () for none')
    return tuple(sorted(positions))


def build_attention(attention: dict | None, in_channels: int) -> nn.Module:
    """Build the module of one position from `attention`, `FactorizedAttention` by default."""
    return MODELS.build({**DEFAULT_ATTENTION, **(attention or {}), 'in_channels': in_channels, '_scope_': 'mmflatten'})
