"""Pixel decoder of the mask head: one map of tokens from the maps of a pyramid."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from mmengine.model import BaseModule, ModuleList
from torch import Tensor, nn

from mmflatten.models.detection.simple_feature_pyramid import ChannelNorm
from mmflatten.models.layers import map_shape
from mmflatten.ops.sizes import same_size

_EPS = 1e-6


class PixelDecoder(BaseModule):
    """Map of tokens from the maps of a backbone, and projections of the finer maps.

    Each map is projected by a 1 x 1 convolution and normalised. The map of tokens is the sum of
    that at `token_level` and the coarser ones, resized bilinearly.

    Args:
        in_channels: channels of the maps, from fine to coarse.
        embed_dims: channels `C` of the results.
        token_level: index of the map of tokens; None for the last but one, or the only one.

    Raises:
        ValueError: there is no such level, or maps and `in_channels` differ in number or channels.
    """

    def __init__(
        self, in_channels: Sequence[int], embed_dims: int, token_level: int | None = None
    ) -> None:
        super().__init__()
        number = len(in_channels)
        self.in_channels = tuple(in_channels)
        self.token_level = max(number - 2, 0) if token_level is None else token_level
        if not 0 <= self.token_level < number:
            raise ValueError(
                f'token_level: expected the index of one of {number} maps, got {token_level!r}.'
            )
        self.laterals = ModuleList()
        for channels in in_channels:
            projection = nn.Conv2d(channels, embed_dims, 1)
            self.laterals.append(nn.Sequential(projection, ChannelNorm(embed_dims, _EPS)))

    def forward(self, maps: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Map of tokens `(B, C, H, W)`, and maps from the next finer one to the finest."""
        channels = tuple(x_BCHW.shape[1] for x_BCHW in maps)
        if channels != self.in_channels:
            raise ValueError(
                f'in_channels: expected {list(channels)}, the channels of the maps, got'
                f' {list(self.in_channels)}.'
            )
        projected = [lateral(x_BCHW) for lateral, x_BCHW in zip(self.laterals, maps)]
        tokens_BCHW = projected[self.token_level]
        for coarse_BCHW in projected[self.token_level + 1 :]:
            tokens_BCHW = tokens_BCHW + resize_map(coarse_BCHW, map_shape(tokens_BCHW))
        return tokens_BCHW, projected[: self.token_level][::-1]


def resize_map(x_BCHW: Tensor, size: tuple[int, int]) -> Tensor:
    """Resize a map bilinearly, unless it has the size."""
    if same_size(map_shape(x_BCHW), size):
        return x_BCHW
    return F.interpolate(x_BCHW, size=size, mode='bilinear', align_corners=False)
