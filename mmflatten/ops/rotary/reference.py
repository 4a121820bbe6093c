"""Explicit references of rotary position embedding."""

from __future__ import annotations

import torch
from torch import Tensor


def rotary_2d(
    x: Tensor,
    hw_shape: tuple[int, int],
    *,
    last_frequency: bool = True,
    span: tuple[int, int] | None = None,
) -> Tensor:
    """Reference of `mmflatten.ops.rotary_2d`: complex rotation, token by token."""
    H, W = hw_shape
    rows, cols = span or hw_shape
    half = x.shape[-1] // 2
    number = half // 2
    last = max(number - 1 if last_frequency else number, 1)
    thetas = [10000 ** (-j / last) for j in range(number)]
    tokens = list(x.unbind(-2))
    for n in range(H * W):
        y_angles = [n // W * rows / H * theta for theta in thetas]
        x_angles = [n % W * cols / W * theta for theta in thetas]
        angles = torch.tensor(y_angles + x_angles, dtype=x.dtype)
        rotation = torch.polar(torch.ones_like(angles), angles)
        index = len(tokens) - H * W + n
        pairs = torch.view_as_complex(tokens[index].unflatten(-1, (half, 2)).contiguous())
        tokens[index] = torch.view_as_real(pairs * rotation).flatten(-2)
    return torch.stack(tokens, dim=-2)


def rotary_normalized(x_BNC: Tensor, hw_shape: tuple[int, int], periods_p: Tensor) -> Tensor:
    """Rotary positions over a map from -1 to 1, by one `d x d` matrix for every token and head."""
    H, W = hw_shape
    number = len(periods_p)
    prefix = x_BNC.shape[1] - H * W
    x_BNhd = x_BNC.unflatten(-1, (-1, 4 * number))
    matrices_Ndd = torch.eye(4 * number, dtype=x_BNC.dtype).repeat(x_BNC.shape[1], 1, 1)
    for n in range(H * W):
        places = ((2 * (n // W) + 1) / H - 1, (2 * (n % W) + 1) / W - 1)
        matrix = matrices_Ndd[prefix + n]
        for a in range(2 * number):
            b = a + 2 * number
            angle = 2 * torch.pi * places[a // number] / periods_p[a % number]
            matrix[a, a] = angle.cos()
            matrix[b, b] = angle.cos()
            matrix[a, b] = -angle.sin()
            matrix[b, a] = angle.sin()
    return torch.einsum('Nde,BNhe->BNhd', matrices_Ndd, x_BNhd).flatten(2)
