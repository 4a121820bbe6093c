"""Projection of tokens."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear`, on the CPU in float32 by way of a 1 x 1 convolution.

    Tokens are a channels-last map, so the convolution needs no copy, and PyTorch hands it to oneDNN, while it hands
    `F.linear` to MKL, whose float32 products run at half the speed on processors that are not Intel's.

    Args:
        x: `(..., C_in)`.
        weight: `(C_out, C_in)`.
        bias: `(C_out,)`.

    Returns:
        `(..., C_out)`.
    """
    if x.device.type != 'cpu' or x.dtype != torch.float32 or torch.is_autocast_enabled('cpu') or not x.numel():
        return F.linear(x, weight, bias)
    x_1CN1 = x.reshape(1, -1, 1, x.shape[-1]).permute(0, 3, 1, 2)
    y = F.conv2d(x_1CN1, weight[:, :, None, None], bias)
    return y.permute(0, 2, 3, 1).reshape(*x.shape[:-1], -1)


class Linear(nn.Linear):
    """`torch.nn.Linear` computed by `linear`; same parameters, same initialisation."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)
