"""Rotary position embedding of sequences and maps."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.ops.precision import upcast


def rotary_1d(x: Tensor) -> Tensor:
    """Rotate neighbouring pairs of channels by the place of the token, `(..., N, w) -> (..., N, w)` with an even `w`.

    The angles are `n theta_j`, `theta_j = 10000 ** (-j / (w / 2 - 1))`. Computed in float32 at least.
    """
    x = upcast(x)[0]
    number = x.shape[-1] // 2
    steps = torch.arange(number, device=x.device, dtype=x.dtype) / max(number - 1, 1)
    return _rotate(x, torch.arange(x.shape[-2], device=x.device, dtype=x.dtype)[:, None] * 10000 ** -steps)


def rotary_2d(x: Tensor, hw_shape: tuple[int, int], *, last_frequency: bool = True) -> Tensor:
    """Rotate neighbouring pairs of channels by angles that grow with the row (first half) and the column (second half).

    A pair `(a, b)` becomes `(a cos - b sin, b cos + a sin)` with the angle `y theta_j` or `x theta_j`, where `theta_j`
    falls geometrically from 1 towards 1 / 10000. Products of two rotated tokens depend on the distance of the tokens.
    Computed in float32 at least, from `(H, W)` alone, so that any map will do.

    Args:
        x: tokens `(..., N, w)` of a map of `H * W` tokens; prefix tokens before it stay as they are.
        hw_shape: `(H, W)`.
        last_frequency: whether `theta` reaches 1 / 10000, `theta_j = 10000 ** (-j / (w / 4 - 1))`, as RALA, MALA and
            their successors have it for each head; else it ends one step before, `10000 ** (-j / (w / 4))`, as MILA
            has it for all channels together.

    Raises:
        ValueError: `w` is no multiple of 4.
    """
    width = x.shape[-1]
    if width % 4:
        raise ValueError(f'the width of the tokens ({width}) must be a multiple of 4, to rotate by rows and columns')
    (H, W), number = hw_shape, width // 4
    x = upcast(x)[0]
    steps = torch.arange(number, device=x.device, dtype=x.dtype) / max(number - 1 if last_frequency else number, 1)
    theta = 10000 ** -steps
    rows, cols = (torch.arange(side, device=x.device, dtype=x.dtype)[:, None] * theta for side in (H, W))
    angles = torch.cat((rows[:, None].expand(H, W, number), cols.expand(H, W, number)), dim=-1).flatten(0, 1)
    return _rotate(x, F.pad(angles, (0, 0, x.shape[-2] - H * W, 0)))


def _rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Pairs of channels `(..., N, w)` by the angles `(N, w / 2)`."""
    cos, sin = angles.cos(), angles.sin()
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)
