"""The monocular half of PSMNet: a dilated residual network with pyramid pooling, the same for both images."""
from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.detection.insertion import build_attention
from mmflatten.models.stereo.conv import ConvNorm

STRIDE = 4  # of the features


def conv2d(in_channels: int, out_channels: int, kernel_size: int, stride: int = 1, dilation: int = 1,
           relu: bool = True) -> ConvNorm:
    """Convolution, batch norm and, as a rule, ReLU on maps."""
    return ConvNorm(2, in_channels, out_channels, kernel_size, stride, dilation, relu=relu)


class ResidualBlock(nn.Module):
    """Two 3 x 3 convolutions around a shortcut; no ReLU behind the sum."""

    def __init__(self, in_channels: int, out_channels: int, stride: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.conv1 = conv2d(in_channels, out_channels, 3, stride, dilation)
        self.conv2 = conv2d(out_channels, out_channels, 3, 1, dilation, relu=False)
        changes = stride != 1 or in_channels != out_channels
        self.downsample = conv2d(in_channels, out_channels, 1, stride, relu=False) if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.downsample(x) + self.conv2(self.conv1(x))


class PyramidPooling(nn.Module):
    """Averages over squares of `pool_sizes` positions, each with a 1 x 1 convolution, resized to the map.

    Args:
        pool_sizes: in positions of the map, which are `STRIDE` pixels; also the strides.
    """

    def __init__(self, in_channels: int, channels: int, pool_sizes: Sequence[int], align_corners: bool) -> None:
        super().__init__()
        self.pool_sizes, self.align_corners = tuple(pool_sizes), align_corners
        self.convs = nn.ModuleList(conv2d(in_channels, channels, 1) for _ in self.pool_sizes)

    def forward(self, x: Tensor) -> list[Tensor]:
        """One map of `channels` and the size of `x` for each pool, in the order of `pool_sizes`."""
        pooled = (conv(F.avg_pool2d(x, size)) for size, conv in zip(self.pool_sizes, self.convs))
        return [F.interpolate(y, x.shape[-2:], mode='bilinear', align_corners=self.align_corners) for y in pooled]


class StereoFeatures(BaseModule):
    """`(B, 3, H, W) -> (B, base_channels, ceil(H / 4), ceil(W / 4))`.

    Args:
        base_channels: of the stem and of the features; the stages have 1, 2, 4 and 4 times as many.
        depths: residual blocks of the four stages.
        pool_sizes: see `PyramidPooling`.
        attention: config of an attention behind the last stage, whose `in_channels` is filled in; none by default.
        align_corners: of every resizing.
    """

    def __init__(self, base_channels: int = 32, depths: Sequence[int] = (3, 16, 3, 3),
                 pool_sizes: Sequence[int] = (64, 32, 16, 8), attention: dict | None = None,
                 align_corners: bool = False, init_cfg: dict | list | None = None) -> None:
        super().__init__(init_cfg)
        base, wide = base_channels, 4 * base_channels
        self.stem = nn.Sequential(conv2d(3, base, 3, 2), conv2d(base, base, 3), conv2d(base, base, 3))
        self.stages = nn.ModuleList((
            _stage(base, base, depths[0]), _stage(base, 2 * base, depths[1], stride=2),
            _stage(2 * base, wide, depths[2]), _stage(wide, wide, depths[3], dilation=2)))
        self.attention = None if attention is None else build_attention(attention, wide)
        self.pyramid = PyramidPooling(wide, base, pool_sizes, align_corners)
        self.fusion = conv2d(6 * base + len(self.pyramid.pool_sizes) * base, wide, 3)
        self.projection = ConvNorm(2, wide, base, 1, norm=False, relu=False)

    def forward(self, image_B3HW: Tensor) -> Tensor:
        """Features of one side; batch norms see the sides one after the other, as in the official code.

        Raises:
            ValueError: the image is smaller than the largest pool.
        """
        self._check_size(image_B3HW)
        fine = self.stages[1](self.stages[0](self.stem(image_B3HW)))
        coarse = self.stages[3](self.stages[2](fine))
        if self.attention is not None:
            coarse = self.attention(coarse)
        pooled = self.pyramid(coarse)
        return self.projection(self.fusion(torch.cat((fine, coarse, *reversed(pooled)), dim=1)))

    def _check_size(self, image_B3HW: Tensor) -> None:
        height, width = image_B3HW.shape[-2:]
        largest = max(self.pyramid.pool_sizes)
        needed = STRIDE * largest
        if min(-(-height // STRIDE), -(-width // STRIDE)) < largest:
            raise ValueError(f'images of {height}x{width} pixels, padding included, are smaller than the pyramid '
                             f'pooling needs: pool_sizes {self.pyramid.pool_sizes} take {needed}x{needed}; give larger '
                             'images or crops, or smaller pool_sizes')


def _stage(in_channels: int, out_channels: int, depth: int, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    widths = (in_channels, *[out_channels] * (depth - 1))
    return nn.Sequential(*(ResidualBlock(width, out_channels, stride if block == 0 else 1, dilation)
                           for block, width in enumerate(widths)))
