"""Embedding and downsampling of L2ViT: a convolutional stem, and normalisation before downsampling convolutions."""
from __future__ import annotations

from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.layers.embed import ConvEmbed, pad_to_multiple
from mmflatten.models.layers.tokens import map_shape, map_to_tokens, tokens_to_map


class ConvStem(BaseModule):
    """Convolutions from an image to normalised tokens at stride 4, `(B, 3, H, W) -> (B, N, C)`.

    Args:
        embed_dims: channels of the tokens.
        deep: use four convolutions (Table 7) instead of two.
    """

    stride = 4

    def __init__(self, embed_dims: int, deep: bool) -> None:
        super().__init__()
        self.out_channels = embed_dims
        half = embed_dims // 2
        if deep:
            layers = [*conv_bn(3, half, 7, 2), nn.ReLU(), *conv_bn(half, half, 3), nn.ReLU(),
                      *conv_bn(half, half, 3), nn.ReLU(), nn.Conv2d(half, embed_dims, 2, 2)]
        else:
            layers = [*conv_bn(3, half, 3, 2, bias=True), nn.ReLU(), *conv_bn(half, embed_dims, 3, 2, bias=True)]
        self.convs = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(embed_dims)

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, tuple[int, int]]:
        x_BCHW = self.convs(pad_to_multiple(x_BCHW, (self.stride, self.stride)))
        return self.norm(map_to_tokens(x_BCHW)), map_shape(x_BCHW)


def conv_bn(in_channels: int, channels: int, kernel_size: int, stride: int = 1, bias: bool = False) -> list[nn.Module]:
    """A convolution padded by half its kernel, followed by batch normalisation."""
    return [nn.Conv2d(in_channels, channels, kernel_size, stride, kernel_size // 2, bias=bias),
            nn.BatchNorm2d(channels)]


class NormedDownsample(ConvEmbed):
    """Downsampling by 2 with normalisation before the convolution."""

    def __init__(self, in_channels: int, embed_dims: int, overlapped: bool) -> None:
        kernel_size, padding = (3, 1) if overlapped else (2, 0)
        super().__init__(in_channels, embed_dims, kernel_size, 2, padding, norm=False)
        self.input_norm = nn.LayerNorm(in_channels)

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, tuple[int, int]]:
        tokens = self.input_norm(map_to_tokens(x_BCHW))
        return super().forward(tokens_to_map(tokens, map_shape(x_BCHW)))
