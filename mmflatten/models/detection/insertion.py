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
    if not _are_distinct(attention_after, number):
        raise ValueError(
            f'attention_after: expected distinct {what} numbers from 1 to {number}, got'
            f' {attention_after!r}.'
        )
    return tuple(sorted(attention_after))


def _are_distinct(positions: object, number: int) -> bool:
    """Return True for a sequence of different integers from 1 to `number`."""
    if isinstance(positions, str) or not isinstance(positions, Sequence):
        return False
    for position in positions:
        if not isinstance(position, int) or not 1 <= position <= number:
            return False
    return len(set(positions)) == len(positions)


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
    cfg: dict = dict(DEFAULT_ATTENTION)
    cfg.update(attention or {})
    cfg.update(in_channels=in_channels, _scope_='mmflatten')
    module = MODELS.build(cfg)
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
