"""Rotary position embedding of sequences and maps."""

from __future__ import annotations

from math import pi

import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.ops.eager import is_eager
from mmflatten.ops.precision import upcast


def rotary_1d(x: Tensor) -> Tensor:
    """Rotate pairs of adjacent channels by the position of the token, `(..., N, w) -> (..., N, w)`
    with an even `w`.

    The angles are `n theta_j`, `theta_j = 10000 ** (-j / (w / 2 - 1))`. Computed in float32 or
    wider.
    """
    x = upcast(x)[0]
    number = x.shape[-1] // 2
    steps = torch.arange(number, device=x.device, dtype=x.dtype) / max(number - 1, 1)
    position = torch.arange(x.shape[-2], device=x.device, dtype=x.dtype)
    return _rotate(x, position[:, None] * 10000**-steps)


def rotary_2d(
    x: Tensor,
    hw_shape: tuple[int, int],
    *,
    last_frequency: bool = True,
    span: tuple[int, int] | None = None,
) -> Tensor:
    """Rotate pairs of adjacent channels by the row (first half of the channels) and the column
    (second half).

    A pair `(a, b)` becomes `(a cos - b sin, b cos + a sin)` with the angle `y theta_j` or
    `x theta_j`, where `theta_j` decreases geometrically from 1 towards 1 / 10000. Products of two
    rotated tokens depend on the offset between them. Computed in float32 or wider, for maps of any
    size.

    Args:
        x: tokens `(..., N, w)`, of which the last `H * W` are the map; prefix tokens are not
            rotated.
        hw_shape: `(H, W)`.
        last_frequency: if True, `theta_j = 10000 ** (-j / (w / 4 - 1))` ends at 1 / 10000, as in
            RALA, MALA and their successors (per head). If False,
            `theta_j = 10000 ** (-j / (w / 4))` ends one step earlier, as in MILA (over all
            channels).
        span: rows and columns over which the positions are spread evenly, `y * span[0] / H`; None
            for `(H, W)` itself.

    Raises:
        ValueError: `w` is not a multiple of 4.
    """
    width = x.shape[-1]
    if width % 4:
        raise ValueError(f'x: expected a width divisible by 4, got {width}.')
    H, W = hw_shape
    number = width // 4
    x = upcast(x)[0]
    last = number - 1 if last_frequency else number
    theta = 10000 ** -(torch.arange(number, device=x.device, dtype=x.dtype) / max(last, 1))
    row_theta, col_theta = theta, theta
    if span is not None:
        row_theta, col_theta = theta * (span[0] / H), theta * (span[1] / W)
    rows = torch.arange(H, device=x.device, dtype=x.dtype)[:, None] * row_theta
    cols = torch.arange(W, device=x.device, dtype=x.dtype)[:, None] * col_theta
    angles = _on_map(rows, cols)
    return _rotate(x, F.pad(angles, (0, 0, x.shape[-2] - H * W, 0)))


def rotary_normalized(x_BNC: Tensor, hw_shape: tuple[int, int], periods_p: Tensor) -> Tensor:
    """Rotate channels of every head by the row and the column, which run from -1 to 1 over the map,
    whatever its size.

    In a head of `d = 4 p` channels, channel `j < 2 p` and channel `j + 2 p` are the pair that is
    rotated by the angle `2 pi y / periods[j]` for `j < p`, and by `2 pi x / periods[j - p]` from
    then on. Centres of patches are at `y = (2 i + 1) / H - 1`. Computed in float32 or wider,
    returned in the type of the input. Source: DINOv3 (Simeoni et al., 2025) and its code.

    Args:
        x_BNC: queries or keys of all heads; the last `H * W` tokens are the map, prefix tokens are
            not rotated.
        hw_shape: `(H, W)`.
        periods_p: periods in units of half the map.

    Raises:
        ValueError: `C` is not a multiple of the width `4 p` of a head.
    """
    width = 4 * len(periods_p)
    if x_BNC.shape[-1] % width:
        raise ValueError(
            f'x: expected a multiple of {width} channels, 4 for each period, got {x_BNC.shape[-1]}.'
        )
    x, periods_p = upcast(x_BNC.unflatten(-1, (-1, width)), periods_p)
    H, W = hw_shape
    # Centres of patches, from -1 to 1.
    row = (torch.arange(H, device=x.device, dtype=x.dtype) + 0.5) / H * 2 - 1
    col = (torch.arange(W, device=x.device, dtype=x.dtype) + 0.5) / W * 2 - 1
    angles = _on_map(2 * pi * row[:, None] / periods_p, 2 * pi * col[:, None] / periods_p)
    angles = F.pad(angles, (0, 0, x.shape[1] - H * W, 0))[:, None]
    cos, sin = angles.cos(), angles.sin()
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(2).to(x_BNC.dtype)


def _on_map(rows_Hp: Tensor, cols_Wp: Tensor) -> Tensor:
    """Angles of every token of a map, `(H W, 2 p)`, from those of its rows and columns."""
    H, W = rows_Hp.shape[0], cols_Wp.shape[0]
    angles = torch.cat((rows_Hp[:, None].expand(H, W, -1), cols_Wp.expand(H, W, -1)), dim=-1)
    return angles.flatten(0, 1)


def _rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate pairs of channels of `(..., N, w)` by the angles `(N, w / 2)`."""
    if is_eager(x) and _pairs_are_complex(x):
        # One pass over memory instead of eight. Compilers and exporters know no complex numbers.
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        turned = pairs * torch.polar(torch.ones_like(angles), angles)
        return torch.view_as_real(turned).flatten(-2)
    cos, sin = angles.cos(), angles.sin()
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)


def _pairs_are_complex(x: Tensor) -> bool:
    """Return True if the pairs of channels lie in memory as complex numbers do."""
    *strides, last = x.stride()
    aligned = all(stride % 2 == 0 for stride in (*strides, x.storage_offset()))
    return last == 1 and aligned and x.device.type in ('cpu', 'cuda')
