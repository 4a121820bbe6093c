"""Embedding and downsampling layers, from a map to tokens and the shape of their map."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from einops import rearrange
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.layers.linear import Linear
from mmflatten.models.layers.tokens import map_shape, map_to_tokens, tokens_to_map
from mmflatten.ops.sizes import ceil_div, certain, contiguous, same_size


def pad_to_multiple(x_BCHW: Tensor, multiple: tuple[int, int]) -> Tensor:
    """Zero-pad a map at the right and the bottom to a multiple of `(h, w)`. No copy if it already
    is one.
    """
    H, W = size = map_shape(x_BCHW)
    padded = (ceil_div(H, multiple[0]) * multiple[0], ceil_div(W, multiple[1]) * multiple[1])
    if same_size(size, padded):
        return x_BCHW
    return F.pad(x_BCHW, (0, padded[1] - W, 0, padded[0] - H))


class ConvEmbed(BaseModule):
    """Strided convolution, then a norm: `(B, C_in, H, W) -> (B, H' W', C), (H', W')` with
    `H' = ceil(H / stride)`.

    With a class token, it comes before the others, `(B, 1 + H' W', C)`, and the returned shape does
    not count it.

    Args:
        in_channels: channels of the input map.
        embed_dims: channels of the tokens.
        kernel_size: of the convolution.
        stride: of the convolution. Maps are first zero-padded at the right and the bottom to a
            multiple of it.
        padding: of the convolution, on all sides.
        norm: normalise the tokens.
        bias: use a bias in the convolution.
        class_token: prepend a learned class token.
    """

    def __init__(
        self,
        in_channels: int,
        embed_dims: int,
        kernel_size: int,
        stride: int,
        padding: int = 0,
        norm: bool = True,
        bias: bool = True,
        class_token: bool = False,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(init_cfg)
        self.stride = stride
        self.out_channels = embed_dims
        self.projection = nn.Conv2d(
            in_channels, embed_dims, kernel_size, stride, padding, bias=bias
        )
        self.norm = nn.LayerNorm(embed_dims) if norm else nn.Identity()
        self.cls_token: nn.Parameter | None = None
        if class_token:
            self.cls_token = nn.Parameter(torch.empty(1, 1, embed_dims))
            nn.init.trunc_normal_(self.cls_token, std=0.02)

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, tuple[int, int]]:
        x_BCHW = pad_to_multiple(x_BCHW, (self.stride, self.stride))
        if certain(x_BCHW.numel() < self.projection.weight.numel()):
            # with a channels-last map PyTorch would copy the weights three times
            x_BCHW = x_BCHW.contiguous()
        x_BCHW = self.projection(x_BCHW)
        tokens = self.norm(map_to_tokens(x_BCHW))
        if self.cls_token is not None:
            prefix = self.cls_token.to(tokens.dtype).expand(tokens.shape[0], -1, -1)
            tokens = torch.cat((prefix, tokens), dim=1)
        return tokens, map_shape(x_BCHW)


class NormedDownsample(ConvEmbed):
    """L2ViT's downsampling by 2, with normalisation before the convolution."""

    def __init__(self, in_channels: int, embed_dims: int, overlapped: bool) -> None:
        kernel_size, padding = (3, 1) if overlapped else (2, 0)
        super().__init__(in_channels, embed_dims, kernel_size, 2, padding, norm=False)
        self.input_norm = nn.LayerNorm(in_channels)

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, tuple[int, int]]:
        tokens = self.input_norm(map_to_tokens(x_BCHW))
        return super().forward(tokens_to_map(tokens, map_shape(x_BCHW)))


def conv_bn(
    in_channels: int, channels: int, kernel_size: int, stride: int = 1, bias: bool = False
) -> list[nn.Module]:
    """A convolution padded by half its kernel, followed by batch normalisation."""
    return [
        nn.Conv2d(in_channels, channels, kernel_size, stride, kernel_size // 2, bias=bias),
        nn.BatchNorm2d(channels),
    ]


class TokenBatchNorm(nn.BatchNorm1d):
    """Batch normalisation of tokens `(B, N, C)`."""

    def forward(self, x_BNC: Tensor) -> Tensor:
        return super().forward(x_BNC.transpose(1, 2)).transpose(1, 2)


class ConvStack(BaseModule):
    """Several convolutions, then a norm: `(B, C_in, H, W) -> (B, H' W', C), (H', W')` with
    `H' = ceil(H / stride)`.

    Args:
        layers: convolutions, norms and activations.
        embed_dims: channels of the tokens.
        stride: of all layers together. Maps are first zero-padded at the right and the bottom to a
            multiple of it.
        norm: normalise the tokens.
    """

    def __init__(
        self, layers: Sequence[nn.Module], embed_dims: int, stride: int, norm: bool = False
    ) -> None:
        super().__init__()
        self.stride = stride
        self.out_channels = embed_dims
        self.convs = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(embed_dims) if norm else nn.Identity()

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, tuple[int, int]]:
        x_BCHW = self.convs(pad_to_multiple(x_BCHW, (self.stride, self.stride)))
        return self.norm(map_to_tokens(x_BCHW)), map_shape(x_BCHW)


class PatchMerging(BaseModule):
    """Swin's downsampling by 2: concatenate 2 x 2 neighbours, normalise and project.

    The channels are in the order of Swin's weights. mmcv's `PatchMerging` orders them by
    `nn.Unfold`.
    """

    def __init__(self, in_channels: int, embed_dims: int, init_cfg: dict | None = None) -> None:
        super().__init__(init_cfg)
        self.stride = 2
        self.out_channels = embed_dims
        self.norm = nn.LayerNorm(4 * in_channels)
        self.reduction = Linear(4 * in_channels, embed_dims, bias=False)

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, tuple[int, int]]:
        x_BHWC = pad_to_multiple(x_BCHW, (2, 2)).permute(0, 2, 3, 1)
        corners = rearrange(x_BHWC, 'B (H row) (W col) C -> B H W col row C', row=2, col=2)
        tokens = contiguous(corners).flatten(3).flatten(1, 2)
        return self.reduction(self.norm(tokens)), (corners.shape[1], corners.shape[2])
