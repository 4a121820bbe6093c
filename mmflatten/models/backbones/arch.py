"""Arguments that the families share: architectures by name and the plan of the stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass(frozen=True)
class StagePlan:
    """Settings of one stage.

    Attributes:
        in_channels: channels of the previous stage, or 3 for the first stage.
        embed_dims: channels of the tokens.
        num_heads: attention heads.
        hidden_dims: hidden width of the feed-forward networks.
        grid: `(H, W)` of the map in pre-training.
        blocks: letter and drop path rate of each block.
    """

    in_channels: int
    embed_dims: int
    num_heads: int
    hidden_dims: int
    grid: tuple[int, int]
    blocks: tuple[tuple[str, float], ...]


def stage_plan(
    settings: Mapping,
    img_size: int | Sequence[int],
    letters: Sequence[str],
    drop_path_rate: float,
    stride: int = 4,
) -> list[StagePlan]:
    """Return the plan of every stage. Each stage halves the map of the previous one.

    Args:
        settings: result of `resolve_arch`. A single `embed_dims` is the width of the first stage
            and doubles in each following stage.
        img_size: image size in pre-training.
        letters: for each stage a string with one letter per block.
        drop_path_rate: drop path rate of the last block. The rate grows linearly from 0 over all
            blocks.
        stride: stride of the first stage.

    Raises:
        ValueError: `img_size` or `drop_path_rate` is invalid.
    """
    if not isinstance(drop_path_rate, (int, float)) or not 0 <= drop_path_rate < 1:
        raise ValueError(f'drop_path_rate: expected a number in [0, 1), got {drop_path_rate!r}.')
    number, dims = len(letters), settings['embed_dims']
    dims = [dims * 2**i for i in range(number)] if isinstance(dims, int) else list(dims)
    ratios = settings.get('mlp_ratios') or [settings['mlp_ratio']] * number
    sides = tuple(img_size) if isinstance(img_size, (list, tuple)) else (img_size, img_size)
    if len(sides) != 2 or not all(isinstance(side, int) and side > 0 for side in sides):
        raise ValueError(f'img_size: expected a positive integer or (H, W), got {img_size!r}.')
    strides = [stride * 2**i for i in range(number)]
    grids = [(-(-sides[0] // total), -(-sides[1] // total)) for total in strides]
    last = max(sum(map(len, letters)) - 1, 1)
    rates = iter(drop_path_rate * block / last for block in range(last + 1))
    return [
        StagePlan(before, now, heads, int(now * ratio), grid, tuple(zip(stage, rates)))
        for (before, now), heads, ratio, grid, stage in zip(
            pairwise([3, *dims]), settings['num_heads'], ratios, grids, letters
        )
    ]


def resolve_arch(
    arch: str | dict,
    table: Mapping[str, dict],
    required: Sequence[str] = ('embed_dims', 'depths', 'num_heads'),
) -> dict:
    """Return the settings of an architecture: a name in `table`, or a dict with the same keys.

    Only the keys in `required` have no default.

    Raises:
        ValueError: unknown name, missing or unknown key, invalid value, or per-stage settings of
            different lengths.
    """
    if isinstance(arch, str) and arch in table:
        return dict(table[arch])
    if not isinstance(arch, Mapping):
        raise ValueError(
            f'arch: expected one of {sorted(table)} or a dict of {list(required)}, got {arch!r}.'
        )
    defaults = next(iter(table.values()))
    missing = [key for key in required if key not in arch]
    if missing:
        raise ValueError(f'arch: missing keys {missing}, got {dict(arch)}.')
    unknown = sorted(set(arch) - set(defaults))
    if unknown:
        raise ValueError(f'arch: expected keys among {sorted(defaults)}, got {unknown}.')
    settings = {**defaults, **arch}
    for key, value in settings.items():
        _check_setting(key, value, defaults[key])
    lengths = {
        key: len(value) for key, value in settings.items() if isinstance(value, (list, tuple))
    }
    if len(set(lengths.values())) > 1:
        raise ValueError(f'arch: expected settings for the same number of stages, got {lengths}.')
    return settings


def _check_setting(key: str, value: Any, default: Any) -> None:
    """Check that a setting is one positive number, or one per stage, like its default. Integers
    stay integers.

    Where the default is 0, so may the setting be; switches and names are of their default's type.
    """
    per_stage = isinstance(default, tuple)
    if isinstance(default, (bool, str)):
        if not isinstance(value, type(default)):
            raise ValueError(
                f'arch[{key!r}]: expected a {type(default).__name__}, such as {default!r}, got'
                f' {value!r}.'
            )
        return
    number = int if isinstance(default[0] if per_stage else default, int) else (int, float)
    values = value if isinstance(value, (list, tuple)) else (value,)
    numbers = all(isinstance(v, number) and (v > 0 or v == default) for v in values)
    if isinstance(value, (list, tuple)) != per_stage or not numbers:
        expected = 'a positive number per stage' if per_stage else 'one positive number'
        raise ValueError(f'arch[{key!r}]: expected {expected}, such as {default}, got {value!r}.')


def per_stage(
    name: str, values: int | Sequence[int], stages: int, least: int = 1, repeat: bool = False
) -> tuple[int, ...]:
    """Return one integer per stage; with `repeat` a single integer holds for all stages.

    Raises:
        ValueError: wrong type or length, or an integer below `least`. The message begins with
            `name`.
    """
    numbers = [values] * stages if repeat and isinstance(values, int) else values
    if (
        not isinstance(numbers, (list, tuple))
        or len(numbers) != stages
        or not all(isinstance(number, int) and number >= least for number in numbers)
    ):
        raise ValueError(
            f'{name}: expected an integer of at least {least} for each of the {stages} stages, '
            f'got {values!r}.'
        )
    return tuple(numbers)


def check_side(name: str, value: int) -> None:
    """Raise ValueError unless the side of a window or patch is a positive integer."""
    if not isinstance(value, int) or value < 1:
        raise ValueError(f'{name}: expected a positive integer, got {value!r}.')
