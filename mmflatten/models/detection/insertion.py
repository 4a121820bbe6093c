"""Helpers for networks with inserted attention: checks of positions and building of modules."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from mmflatten.registry import MODELS

DEFAULT_ATTENTION = dict(type='FactorizedAttention')


def check_positions(attention_after: Sequence[int], number: int, what: str) -> tuple[int, ...]:
    """Return the numbers of stages or levels, counted from 1 as in the paper, as a sorted tuple.

    Raises:
        ValueError: not a sequence of integers, or repeated or out-of-range numbers.
    """
    positions = attention_after
    if (
        isinstance(positions, str)
        or not isinstance(positions, Sequence)
        or not all(isinstance(position, int) and 1 <= position <= number for position in positions)
        or len(set(positions)) != len(positions)
    ):
        raise ValueError(
            f'attention_after: expected distinct {what} numbers from 1 to {number}, got'
            f' {positions!r}.'
        )
    return tuple(sorted(positions))


def build_attention(attention: dict | None, in_channels: int) -> nn.Module:
    """Build the attention module of one position, by default a `FactorizedAttention`.

    Raises:
        ValueError: `attention` is not a config, or the module changes the number of channels or
            requires volumes.
    """
    if not isinstance(attention, dict | None):
        raise ValueError(
            f'attention: expected None or a config such as {DEFAULT_ATTENTION}, got {attention!r}.'
        )
    module = MODELS.build(
        {
            **DEFAULT_ATTENTION,
            **(attention or {}),
            'in_channels': in_channels,
            '_scope_': 'mmflatten',
        }
    )
    if getattr(module, 'out_channels', in_channels) != in_channels:
        raise ValueError(
            f'attention ({attention}): expected {in_channels} output channels, the same as its'
            f' input, got {module.out_channels}. Set reprojection=True.'
        )
    if getattr(module, 'ndim', 2) != 2:
        raise ValueError(
            'attention.ndim: expected 2, because the input is a map (B, C, H, W), got'
            f' {module.ndim}.'
        )
    return module
