"""Letters that assign an attention to each block."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

FOCUSED = dict(type='FocusedLinearAttention', focusing_factor=3, kernel_size=5)
SOFTMAX = dict(type='SoftmaxAttention')


def letter_mixers(
    mixers: Mapping[str, dict] | None, linear_attention: dict | None, defaults: Mapping[str, dict]
) -> dict[str, dict]:
    """Return the mixer config of each letter: the family's defaults, updated with `mixers` and
    `linear_attention`.

    Raises:
        ValueError: a letter that is not a capital or is reserved (`M`), a config without type, or
            two configs for `L`.
    """
    if mixers is not None and not isinstance(mixers, Mapping):
        raise ValueError(
            f'mixers: expected a dict, such as dict(H=dict(type=...)), got {mixers!r}.'
        )
    configs = dict(mixers or {})
    if linear_attention is not None:
        if 'L' in configs:
            raise ValueError(
                "linear_attention: a shorthand for mixers['L'], which is also set, got "
                f'{linear_attention!r}. Set only one of them.'
            )
        configs['L'] = linear_attention
    for letter, cfg in configs.items():
        if not re.fullmatch('[A-LN-Z]', str(letter)):
            raise ValueError(f'mixers: expected capital letters other than M, got {letter!r}.')
        if not isinstance(cfg, Mapping) or 'type' not in cfg:
            raise ValueError(
                f'mixers[{letter!r}]: expected a dict with a type, such as {SOFTMAX}, got {cfg!r}.'
            )
    return {**defaults, **configs}


def parse_attn_types(
    attn_types: str | Sequence[str], depths: Sequence[int], mixers: Mapping[str, dict]
) -> list[str]:
    """Return for each stage a string with one letter per block.

    Args:
        attn_types: one letter per stage, such as 'LLSS'. A stage `M` is mixed: its first blocks are
            `L` and the others `S`, and a number at the end counts the `L` blocks, as in 'LLMS4'.
            Alternatively a list with one letter, or one letter per block, for each stage, such as
            `('L', 'HL', 'LLSSSS', 'S')`.
        depths: blocks per stage.
        mixers: mixer configs by letter.

    Raises:
        ValueError: wrong length, unknown letter, `M` without a number or a number without `M`.
    """
    stages: Sequence[str] = attn_types
    count = ''
    if isinstance(attn_types, str):
        stages = attn_types.rstrip('0123456789')
        count = attn_types[len(stages) :]
        if ('M' in stages) != bool(count):
            raise ValueError(
                'attn_types: expected a number at the end if and only if there is an M, as in'
                f" 'LLMS4', got {attn_types!r}."
            )
    if not isinstance(stages, Sequence) or len(stages) != len(depths):
        raise ValueError(
            f'attn_types: expected a letter for each of the {len(depths)} stages, or a list with a'
            f' string for each stage, got {attn_types!r}.'
        )
    letters = []
    for stage, depth in zip(stages, depths):
        if count and stage == 'M':
            linear = min(int(count), depth)
            letters.append('L' * linear + 'S' * (depth - linear))
        else:
            letters.append(block_letters(attn_types, stage, depth))
    check_letters('attn_types', attn_types, letters, mixers)
    return letters


def block_letters(attn_types: object, stage: str, depth: int) -> str:
    """Expand the letters of one stage, either one letter for all blocks or one per block."""
    if not isinstance(stage, str) or len(stage) not in (1, depth):
        raise ValueError(
            f'attn_types ({attn_types!r}): expected one letter, or one for each of the {depth}'
            f' blocks, got {stage!r}.'
        )
    return stage * depth if len(stage) == 1 else stage


def check_letters(
    name: str, value: object, letters: Sequence[str], mixers: Mapping[str, dict]
) -> None:
    """Raise ValueError if a letter has no mixer."""
    unknown = sorted(set(''.join(letters)) - set(mixers))
    if unknown:
        raise ValueError(
            f'{name} ({value!r}): expected letters among {", ".join(sorted(mixers))}, got '
            f'{", ".join(unknown)}. Add letters with mixers=dict(H=dict(type=...)).'
        )
