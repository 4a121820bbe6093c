"""Convolutions of the stereo network, with batch norm and ReLU."""

from __future__ import annotations

import torch.nn.functional as F
from mmengine.model import BaseModule, kaiming_init
from torch import Tensor, nn

_KINDS = {2: (nn.Conv2d, nn.BatchNorm2d), 3: (nn.Conv3d, nn.BatchNorm3d)}


class ConvNorm(BaseModule):
    """Convolution without bias, padded so that only `stride` changes the size, batch norm and ReLU.

    Args:
        ndim: 2 for maps, 3 for volumes.
        norm: add a batch norm.
        relu: add a ReLU.
    """

    def __init__(
        self,
        ndim: int,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        dilation: int = 1,
        norm: bool = True,
        relu: bool = True,
    ) -> None:
        super().__init__()
        conv, batch_norm = _KINDS[ndim]
        self.conv = conv(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding=kernel_size // 2 * dilation,
            dilation=dilation,
            bias=False,
        )
        self.bn = batch_norm(out_channels) if norm else nn.Identity()
        self.relu = relu
        self.init_weights()

    def init_weights(self) -> None:
        """Initialise from a normal distribution with variance `2 / fan_out`, as the official
        code.
        """
        kaiming_init(self.conv)

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn(self.conv(x))
        return F.relu(y, inplace=True) if self.relu else y
