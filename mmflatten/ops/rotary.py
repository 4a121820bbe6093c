"""Rotary position embedding of sequences and maps."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.ops.precision import upcast


def rotary_1d(x: Tensor) -> Tensor:
    """Rotate pairs of adjacent channels by the position of the token, `(..., N, w) -> (..., N, w)` with an even `w`.

    The angles are `n theta_j`, `theta_j = 10000 ** (-j / (w / 2 - 1))`. Computed in float32 or wider.
    """
    x = upcast(x)[0]
    number = x.shape[-1] // 2
    steps = torch.arange(number, device=x.device, dtype=x.dtype) / max(number - 1, 1)
    return _rotate(x, torch.arange(x.shape[-2], device=x.device, dtype=x.dtype)[:, None] * 10000 ** -steps)


def rotary_2d(x: Tensor, hw_shape: tuple[int, int], *, last_frequency: bool = True) -> Tensor:
    """Rotate pairs of adjacent channels by the row (first half of the channels) and the column (second half).

    A pair `(a, b)` becomes `(a cos - b sin, b cos + a sin)` with the angle `y theta_j` or `x theta_j`, where `theta_j`
    decreases geometrically from 1 towards 1 / 10000. Products of two rotated tokens depend on the offset between them.
    Computed in float32 or wider, for maps of any size.

    Args:
        x: tokens `(..., N, w)`, of which the last `H * W` are the map; prefix tokens are not rotated.
        hw_shape: `(H, W)`.
        last_frequency: if True, `theta_j = 10000 ** (-j / (w / 4 - 1))` ends at 1 / 10000, as in RALA, MALA and their
            successors (per head). If False, `theta_j = 10000 ** (-j / (w / 4))` ends one step earlier, as in MILA (over
            all channels).

    Raises:
        ValueError: `w` is not a multiple of 4.
    """
    width = x.shape[-1]
    if width % 4:
        raise ValueError(f'x: expected a width divisible by 4, got {width}.')
    (H, W), number = hw_shape, width // 4
    x = upcast(x)[0]
    steps = torch.arange(number, device=x.device, dtype=x.dtype) / max(number - 1 if last_frequency else number, 1)
    theta = 10000 ** -steps
    rows, cols = (torch.arange(side, device=x.device, dtype=x.dtype)[:, None] * theta for side in (H, W))
    angles = torch.cat((rows[:, None].expand(H, W, number), cols.expand(H, W, number)), dim=-1).flatten(0, 1)
    return _rotate(x, F.pad(angles, (0, 0, x.shape[-2] - H * W, 0)))


def _rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate pairs of channels of `(..., N, w)` by the angles `(N, w / 2)`."""
    cos, sin = angles.cos(), angles.sin()
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)
