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
    """Build the module of one position from `attention`, `FactorizedAttention` by default.

    Raises:
        ValueError: `attention` is no config, or its module would hand on a map of another width or takes volumes.
    """
    if not isinstance(attention, dict | None):
        raise ValueError(f'attention ({attention!r}) must be a config of a module such as {DEFAULT_ATTENTION}, or None')
    module = MODELS.build(
        {**DEFAULT_ATTENTION, **(attention or {}), 'in_channels': in_channels, '_scope_': 'mmflatten'})
    if getattr(module, 'out_channels', in_channels) != in_channels:
        raise ValueError(f'attention ({attention}) turns {in_channels} channels into {module.out_channels}, and what '
                         'follows takes as many as before; set reprojection=True')
    if getattr(module, 'ndim', 2) != 2:
        raise ValueError(f'ndim ({module.ndim}) of attention must be 2: it sits on maps (B, C, H, W)')
    return module
