"""Letters of mixers: which attention stands in which block."""
from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

FOCUSED = dict(type='FocusedLinearAttention', focusing_factor=3, kernel_size=5)
SOFTMAX = dict(type='SoftmaxAttention')


def letter_mixers(mixers: Mapping[str, dict] | None, linear_attention: dict | None,
                  defaults: Mapping[str, dict]) -> dict[str, dict]:
    """The config of the mixer behind each letter: the family's own, and those that a user adds or overrides.

    Args:
        mixers: letter to config, such as `dict(L=dict(type='FocusedLinearAttention'), H=dict(type='HydraAttention'))`.
        linear_attention: short for `mixers=dict(L=...)`.
        defaults: the family's letters.

    Raises:
        ValueError: a letter that is no capital or is taken (`M`), a config without a type, `L` given twice.
    """
    if mixers is not None and not isinstance(mixers, Mapping):
        raise ValueError(f'mixers ({mixers!r}) must be a dict, such as dict(H=dict(type=...))')
    given = dict(mixers or {})
    if linear_attention is not None:
        if 'L' in given:
            raise ValueError(f"linear_attention ({linear_attention!r}) is short for mixers['L'] ({given['L']!r}); give "
                             'one of them')
        given['L'] = linear_attention
    for letter, cfg in given.items():
        if not re.fullmatch('[A-LN-Z]', str(letter)):
            raise ValueError(f'mixers has the letter {letter!r}, which must be one of A to Z without M')
        if not isinstance(cfg, Mapping) or 'type' not in cfg:
            raise ValueError(f'mixers[{letter!r}] ({cfg!r}) must be a dict with a type, such as {SOFTMAX}')
    return {**defaults, **given}


def parse_attn_types(attn_types: str | Sequence[str], depths: Sequence[int],
                     mixers: Mapping[str, dict]) -> list[str]:
    """For each stage a letter per block.

    Args:
        attn_types: a letter per stage, such as 'LLSS'. `M` mixes: its first blocks are `L`, as many as the digits
            at the end say, the rest `S`, as in 'LLMS4'. Or for each stage a letter or a letter per block, such as
            `('L', 'HL', 'LLSSSS', 'S')`.
        depths: blocks per stage.
        mixers: the letters there are.

    Raises:
        ValueError: wrong length, unknown letter, `M` without a count or a count without `M`.
    """
    stages: Sequence[str] = attn_types
    count = ''
    if isinstance(attn_types, str):
        stages = attn_types.rstrip('0123456789')
        count = attn_types[len(stages):]
        if ('M' in stages) != bool(count):
            raise ValueError(f"attn_types ({attn_types!r}) must have a count at the end if it has an M, as in 'LLMS4', "
                             'and none otherwise')
    if not isinstance(stages, Sequence) or len(stages) != len(depths):
        raise ValueError(f'attn_types ({attn_types!r}) must have one letter for each of the {len(depths)} stages, or a '
                         'list of as many strings of letters')
    linear = int(count or 0)
    letters = ['L' * min(linear, depth) + 'S' * (depth - min(linear, depth)) if count and stage == 'M' else
               block_letters(attn_types, stage, depth) for stage, depth in zip(stages, depths)]
    check_letters('attn_types', attn_types, letters, mixers)
    return letters


def block_letters(attn_types: object, stage: str, depth: int) -> str:
    """The letters of one stage, given as one letter for all blocks or one for each."""
    if not isinstance(stage, str) or len(stage) not in (1, depth):
        raise ValueError(f'attn_types ({attn_types!r}) must give one letter, or one for each of the {depth} blocks; '
                         f'got {stage!r}')
    return stage * depth if len(stage) == 1 else stage


def check_letters(name: str, value: object, letters: Sequence[str], mixers: Mapping[str, dict]) -> None:
    """Refuse letters without a mixer."""
    unknown = sorted(set(''.join(letters)) - set(mixers))
    if unknown:
        raise ValueError(f'{name} ({value!r}) has {", ".join(unknown)}, and there are mixers for '
                         f'{", ".join(sorted(mixers))}; a letter is added as in mixers=dict(H=dict(type=...))')
