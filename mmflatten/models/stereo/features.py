"""Feature extractor of PSMNet: a dilated residual network with pyramid pooling, shared by both
images.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.detection.insertion import build_attention
from mmflatten.models.stereo.conv import ConvNorm

STRIDE = 4  # stride of the features
conv2d = partial(ConvNorm, 2)


class ResidualBlock(nn.Module):
    """Two 3 x 3 convolutions with a shortcut. There is no ReLU after the sum."""

    def __init__(
        self, in_channels: int, out_channels: int, stride: int = 1, dilation: int = 1
    ) -> None:
        super().__init__()
        self.conv1 = conv2d(in_channels, out_channels, 3, stride=stride, dilation=dilation)
        self.conv2 = conv2d(out_channels, out_channels, 3, dilation=dilation, relu=False)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            self.downsample = conv2d(in_channels, out_channels, 1, stride=stride, relu=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.downsample(x) + self.conv2(self.conv1(x))


class PyramidPooling(nn.Module):
    """Average pooling at several window sizes, each followed by a 1 x 1 convolution and resizing to
    the input size.

    Args:
        pool_sizes: window sizes and strides in positions of the map, which are `STRIDE` pixels.
    """

    def __init__(
        self, in_channels: int, channels: int, pool_sizes: Sequence[int], align_corners: bool
    ) -> None:
        super().__init__()
        self.pool_sizes, self.align_corners = tuple(pool_sizes), align_corners
        self.convs = nn.ModuleList(conv2d(in_channels, channels, 1) for _ in self.pool_sizes)

    def forward(self, x: Tensor) -> list[Tensor]:
        """Compute one map of `channels` and the size of `x` for each of `pool_sizes`."""
        size = x.shape[-2:]
        maps = []
        for pool_size, conv in zip(self.pool_sizes, self.convs):
            pooled = conv(F.avg_pool2d(x, pool_size))
            maps.append(
                F.interpolate(pooled, size, mode='bilinear', align_corners=self.align_corners)
            )
        return maps


class StereoFeatures(BaseModule):
    """`(B, in_channels, H, W) -> (B, base_channels, ceil(H / 4), ceil(W / 4))`.

    Args:
        base_channels: channels of the stem and the features. The stages have 1, 2, 4 and 4 times as
            many.
        depths: number of residual blocks in each of the four stages.
        pool_sizes: see `PyramidPooling`.
        attention: config of an attention after the last stage, whose `in_channels` is set
            automatically; None for none.
        align_corners: `align_corners` of all resizing.
        in_channels: bands of an image.
    """

    def __init__(
        self,
        base_channels: int = 32,
        depths: Sequence[int] = (3, 16, 3, 3),
        pool_sizes: Sequence[int] = (64, 32, 16, 8),
        attention: dict | None = None,
        align_corners: bool = False,
        in_channels: int = 3,
        init_cfg: dict | list | None = None,
    ) -> None:
        super().__init__(init_cfg)
        base, wide = base_channels, 4 * base_channels
        self.stem = nn.Sequential(
            conv2d(in_channels, base, 3, stride=2), conv2d(base, base, 3), conv2d(base, base, 3)
        )
        self.stages = nn.ModuleList(
            (
                _stage(base, base, depths[0]),
                _stage(base, 2 * base, depths[1], stride=2),
                _stage(2 * base, wide, depths[2]),
                _stage(wide, wide, depths[3], dilation=2),
            )
        )
        self.attention = None if attention is None else build_attention(attention, wide)
        self.pyramid = PyramidPooling(
            in_channels=wide, channels=base, pool_sizes=pool_sizes, align_corners=align_corners
        )
        self.fusion = conv2d(6 * base + len(self.pyramid.pool_sizes) * base, wide, 3)
        self.projection = conv2d(wide, base, 1, norm=False, relu=False)

    def forward(self, image_BCHW: Tensor) -> Tensor:
        """Compute the features of the left or right images.

        As in the official code, the two sides are separate batches for batch norm.

        Raises:
            ValueError: the image is smaller than the largest pool.
        """
        height, width = image_BCHW.shape[-2:]
        largest = max(self.pyramid.pool_sizes)
        if min(-(-height // STRIDE), -(-width // STRIDE)) < largest:
            least = STRIDE * largest
            raise ValueError(
                f'images: expected at least {least}x{least} pixels for pool_sizes'
                f' {self.pyramid.pool_sizes}, got {height}x{width} including padding. Use larger'
                ' images or crops, or smaller pool_sizes.'
            )
        fine = self.stages[1](self.stages[0](self.stem(image_BCHW)))
        coarse = self.stages[3](self.stages[2](fine))
        if self.attention is not None:
            coarse = self.attention(coarse)
        pooled = self.pyramid(coarse)
        return self.projection(self.fusion(torch.cat((fine, coarse, *reversed(pooled)), dim=1)))


def _stage(
    in_channels: int, out_channels: int, depth: int, stride: int = 1, dilation: int = 1
) -> nn.Sequential:
    # The first block changes the size and the channels.
    blocks = [ResidualBlock(in_channels, out_channels, stride=stride, dilation=dilation)]
    for _ in range(depth - 1):
        blocks.append(ResidualBlock(out_channels, out_channels, dilation=dilation))
    return nn.Sequential(*blocks)
