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
        ValueError: an unknown name, a missing or an unknown key, a setting out of its range, per-stage settings of
            different lengths.
    """
    if isinstance(arch, str) and arch in table:
        return dict(table[arch])
    if not isinstance(arch, Mapping):
        raise ValueError(f'arch ({arch!r}) must be one of {sorted(table)}, or a dict of {list(required)}')
    defaults = next(iter(table.values()))
    missing = [key for key in required if key not in arch]
    if missing:
        raise ValueError(f'arch {dict(arch)} lacks {missing}; a dict must give {list(required)}')
    unknown = sorted(set(arch) - set(defaults))
    if unknown:
        raise ValueError(f'arch has unknown keys {unknown}; known are {sorted(defaults)}')
    settings = {**defaults, **arch}
    for key, value in settings.items():
        _check_setting(key, value, defaults[key])
    lengths = {key: len(value) for key, value in settings.items() if isinstance(value, (list, tuple))}
    if len(set(lengths.values())) > 1:
        raise ValueError(f'arch gives settings for different numbers of stages: {lengths}')
    return settings


def _check_setting(key: str, value: object, default: object) -> None:
    """A setting is a number or a number per stage, as its default is; whole where that is whole."""
    several = isinstance(default, tuple)
    numbers = int if isinstance(default[0] if several else default, int) else (int, float)
    values = value if isinstance(value, (list, tuple)) else (value,)
    if isinstance(value, (list, tuple)) != several or not all(isinstance(v, numbers) and v > 0 for v in values):
        raise ValueError(f'arch[{key!r}] ({value!r}) must be {"a number per stage" if several else "one number"} '
                         f'above 0, such as {default}')


def per_stage(name: str, values: int | Sequence[int], stages: int, least: int = 1,
              repeat: bool = False) -> tuple[int, ...]:
    """A whole number for each stage; `repeat` takes one number for all of them too.

    Raises:
        ValueError: anything else, or a number below `least`.
    """
    numbers = [values] * stages if repeat and isinstance(values, int) else values
    fits = isinstance(numbers, (list, tuple)) and len(numbers) == stages
    if not fits or not all(isinstance(number, int) and number >= least for number in numbers):
        raise ValueError(f'{name} ({values!r}) must give a whole number of at least {least} for each of the {stages} '
                         'stages')
    return tuple(numbers)


def check_side(name: str, value: int) -> None:
    """Refuse the side of a window or a patch that is no whole number of at least 1."""
    if not isinstance(value, int) or value < 1:
        raise ValueError(f'{name} ({value!r}) must be a whole number of at least 1')


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
    match = isinstance(attn_types, str) and re.fullmatch(rf'([{letters}M]{{{len(depths)}}})(\d*)', attn_types)
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
    if not isinstance(drop_path_rate, (int, float)) or not 0 <= drop_path_rate < 1:
        raise ValueError(f'drop_path_rate ({drop_path_rate!r}) must lie in [0, 1)')
    last = max(sum(depths) - 1, 1)
    rates = iter(drop_path_rate * block / last for block in range(sum(depths)))
    return [list(islice(rates, depth)) for depth in depths]


def stage_grids(img_size: int | Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """`(H, W)` of the token maps of an image at these strides, rounded up.

    Raises:
        ValueError: an image size that is neither a positive number nor two.
    """
    sides = tuple(img_size) if isinstance(img_size, (list, tuple)) else (img_size, img_size)
    if len(sides) != 2 or not all(isinstance(side, int) and side > 0 for side in sides):
        raise ValueError(f'img_size ({img_size!r}) must be a positive integer or (H, W)')
    return [(-(-sides[0] // stride), -(-sides[1] // stride)) for stride in strides]
