"""What the families' arguments share: architectures by name, and the plan of the stages."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass(frozen=True)
class StagePlan:
    """What a family builds a stage of.

    Attributes:
        in_channels: of the stage before; 3 for the first.
        embed_dims: channels of its tokens.
        num_heads: of its attentions.
        hidden_dims: of its feed-forward networks.
        grid: `(H, W)` of its map in pre-training.
        blocks: the letter of each block, and its drop path rate.
    """

    in_channels: int
    embed_dims: int
    num_heads: int
    hidden_dims: int
    grid: tuple[int, int]
    blocks: tuple[tuple[str, float], ...]


def stage_plan(settings: Mapping, img_size: int | Sequence[int], letters: Sequence[str], drop_path_rate: float,
               stride: int = 4) -> list[StagePlan]:
    """The plan of every stage; each halves the map of the one before.

    Args:
        settings: of `resolve_arch`. One number of `embed_dims` is that of the first stage, doubled in each next one.
        img_size: image size in pre-training.
        letters: for each stage a letter per block.
        drop_path_rate: of the last block; grows linearly from 0 over all of them.
        stride: of the first stage.

    Raises:
        ValueError: `img_size` or `drop_path_rate` out of its range.
    """
    if not isinstance(drop_path_rate, (int, float)) or not 0 <= drop_path_rate < 1:
        raise ValueError(f'drop_path_rate ({drop_path_rate!r}) must lie in [0, 1)')
    number, dims = len(letters), settings['embed_dims']
    dims = [dims * 2 ** i for i in range(number)] if isinstance(dims, int) else list(dims)
    ratios = settings.get('mlp_ratios') or [settings['mlp_ratio']] * number
    grids = stage_grids(img_size, [stride * 2 ** i for i in range(number)])
    last = max(sum(map(len, letters)) - 1, 1)
    rates = iter(drop_path_rate * block / last for block in range(last + 1))
    return [StagePlan(before, now, heads, int(now * ratio), grid, tuple(zip(stage, rates)))
            for (before, now), heads, ratio, grid, stage in zip(
                pairwise([3, *dims]), settings['num_heads'], ratios, grids, letters)]


def resolve_arch(arch: str | dict, table: Mapping[str, dict],
                 required: Sequence[str] = ('embed_dims', 'depths', 'num_heads')) -> dict:
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


def _check_setting(key: str, value: Any, default: Any) -> None:
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
    if not isinstance(numbers, (list, tuple)) or len(numbers) != stages or not all(
            isinstance(number, int) and number >= least for number in numbers):
        raise ValueError(f'{name} ({values!r}) must give a whole number of at least {least} for each of the {stages} '
                         'stages')
    return tuple(numbers)


def check_choice(name: str, value: object, choices: Sequence) -> None:
    """Refuse anything that is none of the choices."""
    if value not in choices:
        raise ValueError(f'{name} ({value!r}) must be one of {list(choices)}')


def check_side(name: str, value: int) -> None:
    """Refuse the side of a window or a patch that is no whole number of at least 1."""
    if not isinstance(value, int) or value < 1:
        raise ValueError(f'{name} ({value!r}) must be a whole number of at least 1')


def stage_grids(img_size: int | Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """`(H, W)` of the token maps of an image at these strides, rounded up.

    Raises:
        ValueError: an image size that is neither a positive number nor two.
    """
    sides = tuple(img_size) if isinstance(img_size, (list, tuple)) else (img_size, img_size)
    if len(sides) != 2 or not all(isinstance(side, int) and side > 0 for side in sides):
        raise ValueError(f'img_size ({img_size!r}) must be a positive integer or (H, W)')
    return [(-(-sides[0] // stride), -(-sides[1] // stride)) for stride in strides]
