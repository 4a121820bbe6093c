"""What the families' arguments share: architectures by name, letters of attention types."""
from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice


def resolve_arch(arch: str | dict, table: Mapping[str, dict], required: Sequence[str]) -> dict:
    """The settings of a named architecture, or of a dict that gives them itself.

    Args:
        arch: a key of `table`, or a dict with the keys of `required` and any others that the named ones have.
        table: the family's architectures.
        required: keys that a dict must give.

    Raises:
        ValueError: an unknown name, a missing or an unknown key, per-stage settings of different lengths.
    """
    if isinstance(arch, str):
        if arch not in table:
            raise ValueError(f'arch ({arch!r}) must be one of {sorted(table)}, or a dict of {list(required)}')
        return dict(table[arch])
    defaults = next(iter(table.values()))
    missing = [key for key in required if key not in arch]
    if missing:
        raise ValueError(f'arch {dict(arch)} lacks {missing}; a dict must give {list(required)}')
    unknown = sorted(set(arch) - set(defaults))
    if unknown:
        raise ValueError(f'arch has unknown keys {unknown}; known are {sorted(defaults)}')
    settings = {**defaults, **arch}
    lengths = {key: len(value) for key, value in settings.items() if isinstance(value, (list, tuple))}
    if len(set(lengths.values())) > 1:
        raise ValueError(f'arch gives settings for different numbers of stages: {lengths}')
    return settings


def parse_attn_types(attn_types: str, depths: Sequence[int], letters: str = 'LS') -> list[str]:
    """One string of letters per stage, a letter per block.

    Args:
        attn_types: a letter per stage, such as 'LLSS'. `M` mixes: its first blocks are linear, as many as the digits
            at the end say, the rest softmax, as in 'LLMS4'.
        depths: blocks per stage.
        letters: the letters that a stage may have besides `M`.

    Raises:
        ValueError: wrong length, unknown letter, `M` without a count or a count without `M`.
    """
    match = re.fullmatch(rf'([{letters}M]{{{len(depths)}}})(\d*)', attn_types)
    if not match:
        raise ValueError(f"attn_types ({attn_types!r}) must have one letter of {'/'.join(letters)} for each of the "
                         f"{len(depths)} stages, or M with a count of linear blocks at the end, as in 'LLMS4'")
    stages, count = match.groups()
    if ('M' in stages) != bool(count):
        raise ValueError(f"attn_types ({attn_types!r}) must have a count at the end if it has an M, as in 'LLMS4', "
                         'and none otherwise')
    linear = int(count or 0)
    return ['L' * min(linear, depth) + 'S' * (depth - min(linear, depth)) if letter == 'M' else letter * depth
            for letter, depth in zip(stages, depths)]


def drop_path_schedule(drop_path_rate: float, depths: Sequence[int]) -> list[list[float]]:
    """Drop path probabilities that grow linearly from 0 to `drop_path_rate` over all blocks, per stage."""
    if not 0 <= drop_path_rate < 1:
        raise ValueError(f'drop_path_rate ({drop_path_rate}) must lie in [0, 1)')
    last = max(sum(depths) - 1, 1)
    rates = iter(drop_path_rate * block / last for block in range(sum(depths)))
    return [list(islice(rates, depth)) for depth in depths]


def stage_grids(img_size: int | Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """`(H, W)` of the token maps of an image at these strides, rounded up.

    Raises:
        ValueError: an image size that is neither a positive number nor two.
    """
    sides = (img_size, img_size) if isinstance(img_size, int) else tuple(img_size)
    if len(sides) != 2 or not all(isinstance(side, int) and side > 0 for side in sides):
        raise ValueError(f'img_size ({img_size}) must be a positive integer or (H, W)')
    return [(-(-sides[0] // stride), -(-sides[1] // stride)) for stride in strides]
