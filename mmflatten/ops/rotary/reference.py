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
    (H, W), (rows, cols), half = hw_shape, span or hw_shape, x.shape[-1] // 2
    number = half // 2
    tokens = list(x.unbind(-2))
    for n in range(H * W):
        thetas = [
            10000 ** (-j / max(number - 1 if last_frequency else number, 1)) for j in range(number)
        ]
        angles = torch.tensor(
            [n // W * rows / H * t for t in thetas] + [n % W * cols / W * t for t in thetas],
            dtype=x.dtype,
        )
        index = len(tokens) - H * W + n
        pairs = torch.view_as_complex(tokens[index].unflatten(-1, (half, 2)).contiguous())
        tokens[index] = torch.view_as_real(
            pairs * torch.polar(torch.ones_like(angles), angles)
        ).flatten(-2)
    return torch.stack(tokens, dim=-2)


def rotary_normalized(x_BNC: Tensor, hw_shape: tuple[int, int], periods_p: Tensor) -> Tensor:
    """Rotary positions over a map from -1 to 1, by one `d x d` matrix for every token and head."""
    number, (H, W) = len(periods_p), hw_shape
    x_BNhd, prefix = x_BNC.unflatten(-1, (-1, 4 * number)), x_BNC.shape[1] - H * W
    matrices_Ndd = torch.eye(4 * number, dtype=x_BNC.dtype).repeat(x_BNC.shape[1], 1, 1)
    for n in range(H * W):
        places = ((2 * (n // W) + 1) / H - 1, (2 * (n % W) + 1) / W - 1)
        for j in range(2 * number):
            angle = 2 * torch.pi * places[j // number] / periods_p[j % number]
            a, b, matrix = j, j + 2 * number, matrices_Ndd[prefix + n]
            matrix[a, a] = matrix[b, b] = angle.cos()
            matrix[a, b], matrix[b, a] = -angle.sin(), angle.sin()
    return torch.einsum('Nde,BNhe->BNhd', matrices_Ndd, x_BNhd).flatten(2)
