"""Arguments that the families share: architectures by name and the plan of the stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class BlockPlan:
    """Settings of one block.

    Attributes:
        index: position in the stage, from 0.
        letter: letter of the block's mixer.
        drop_path: drop path rate.
    """

    index: int
    letter: str
    drop_path: float


@dataclass(frozen=True)
class StagePlan:
    """Settings of one stage.

    Attributes:
        index: position in the network, from 0.
        is_last: last stage of the architecture.
        in_channels: channels of the previous stage, or 3 for the first stage.
        embed_dims: channels of the tokens.
        num_heads: attention heads.
        hidden_dims: hidden width of the feed-forward networks.
        grid: `(H, W)` of the map in pre-training.
        blocks: settings of the blocks.
    """

    index: int
    is_last: bool
    in_channels: int
    embed_dims: int
    num_heads: int
    hidden_dims: int
    grid: tuple[int, int]
    blocks: tuple[BlockPlan, ...]


def stage_plan(
    settings: Mapping,
    img_size: int | Sequence[int],
    letters: Sequence[str],
    drop_path_rate: float,
    stride: int = 4,
    in_channels: int = 3,
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
        in_channels: bands of the image.

    Raises:
        ValueError: `img_size` or `drop_path_rate` is invalid.
    """
    number = len(letters)
    height, width = _sides(img_size)
    widths = settings['embed_dims']
    if isinstance(widths, int):
        widths = [widths * 2**index for index in range(number)]
    ratios = settings.get('mlp_ratios') or [settings['mlp_ratio']] * number
    rates = _drop_path_rates(drop_path_rate, sum(map(len, letters)))

    stages = []
    for index in range(number):
        total_stride = stride * 2**index
        stage = StagePlan(
            index=index,
            is_last=index == number - 1,
            in_channels=in_channels,
            embed_dims=widths[index],
            num_heads=settings['num_heads'][index],
            hidden_dims=int(widths[index] * ratios[index]),
            # Maps are padded to whole patches.
            grid=(-(-height // total_stride), -(-width // total_stride)),
            blocks=_blocks(letters[index], rates),
        )
        stages.append(stage)
        in_channels = stage.embed_dims
    return stages


def _sides(img_size: int | Sequence[int]) -> tuple[int, int]:
    sides = tuple(img_size) if isinstance(img_size, (list, tuple)) else (img_size, img_size)
    if len(sides) != 2 or not all(isinstance(side, int) and side > 0 for side in sides):
        raise ValueError(f'img_size: expected a positive integer or (H, W), got {img_size!r}.')
    return sides


def _drop_path_rates(drop_path_rate: float, number: int) -> Iterator[float]:
    """Return the rate of each block of the network, from 0 to `drop_path_rate`."""
    if not isinstance(drop_path_rate, (int, float)) or not 0 <= drop_path_rate < 1:
        raise ValueError(f'drop_path_rate: expected a number in [0, 1), got {drop_path_rate!r}.')
    last = max(number - 1, 1)
    return iter([drop_path_rate * index / last for index in range(number)])


def _blocks(letters: str, rates: Iterator[float]) -> tuple[BlockPlan, ...]:
    """Return the plans of a stage's blocks, which consume their rates."""
    blocks = []
    for index, letter in enumerate(letters):
        blocks.append(BlockPlan(index=index, letter=letter, drop_path=next(rates)))
    return tuple(blocks)


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
    _check_lengths(settings)
    return settings


def _check_setting(key: str, value: Any, default: Any) -> None:
    """Check that a setting has the type of its default.

    Switches and names have the default's type. Other settings are one positive number, or one per
    stage, and integers where the default is an integer. The default itself may be 0.
    """
    if isinstance(default, (bool, str)):
        if not isinstance(value, type(default)):
            raise ValueError(
                f'arch[{key!r}]: expected a {type(default).__name__}, such as {default!r}, got'
                f' {value!r}.'
            )
        return

    per_stage = isinstance(default, tuple)
    expected = 'a positive number per stage' if per_stage else 'one positive number'
    example = default[0] if per_stage else default
    types = int if isinstance(example, int) else (int, float)
    is_sequence = isinstance(value, (list, tuple))
    numbers = value if is_sequence else [value]
    valid = all(isinstance(v, types) and (v > 0 or v == default) for v in numbers)
    if is_sequence != per_stage or not valid:
        raise ValueError(f'arch[{key!r}]: expected {expected}, such as {default}, got {value!r}.')


def _check_lengths(settings: Mapping[str, Any]) -> None:
    lengths = {}
    for key, value in settings.items():
        if isinstance(value, (list, tuple)):
            lengths[key] = len(value)
    if len(set(lengths.values())) > 1:
        raise ValueError(f'arch: expected settings for the same number of stages, got {lengths}.')


def per_stage(
    name: str, values: int | Sequence[int], stages: int, *, least: int = 1, repeat: bool = False
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
