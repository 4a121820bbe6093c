"""Depthwise convolutions on the map of the tokens."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.layers.linear import uses_onednn
from mmflatten.models.layers.tokens import on_map
from mmflatten.ops.depthwise import depthwise_conv


class DepthwiseConv(nn.Conv2d):
    """Depthwise convolution that keeps the size of the map, see `depthwise_conv`."""

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return depthwise_conv(x_BCHW, self.weight, self.bias)


# MMEngine's initialisers find a layer by the name of its class or of its direct base.
class ConvGELU(nn.Conv2d):
    """`gelu(conv(x))`; oneDNN computes both in one pass where `uses_onednn` holds."""

    def forward(self, x_BCHW: Tensor) -> Tensor:
        if not uses_onednn(x_BCHW, self.weight, self.bias):
            return F.gelu(super().forward(x_BCHW))
        return torch.ops.mkldnn._convolution_pointwise(
            x_BCHW,
            self.weight,
            self.bias,
            self.padding,
            self.stride,
            self.dilation,
            self.groups,
            'gelu',
            [],
            'none',
        )


def check_odd(kernel_size: int) -> None:
    """Raise ValueError unless a kernel is odd, so that the map keeps its size."""
    if kernel_size < 1 or kernel_size % 2 == 0:
        raise ValueError(f'kernel_size: expected an odd positive number, got {kernel_size}.')


def depthwise(channels: int, kernel_size: int, gelu: bool = False) -> nn.Conv2d:
    """A depthwise convolution with an odd kernel, which keeps the size of the map, optionally
    followed by GELU.
    """
    check_odd(kernel_size)
    conv = ConvGELU if gelu else DepthwiseConv
    return conv(channels, channels, kernel_size, padding=kernel_size // 2, groups=channels)


class TokenConv(BaseModule):
    """Depthwise convolution on the map of the tokens; the output for prefix tokens (a class token)
    is zero.

    Args:
        embed_dims: channels `C`.
        kernel_size: odd.
        num_groups: number of groups of `C / num_groups` consecutive channels that share the same
            weights. FLatten's heads do: `num_groups=num_heads`.
        gelu: apply GELU to the output. Requires `num_groups=1`.
    """

    def __init__(
        self,
        embed_dims: int,
        kernel_size: int,
        num_groups: int = 1,
        init_cfg: dict | None = None,
        *,
        gelu: bool = False,
    ) -> None:
        super().__init__(init_cfg)
        if embed_dims % num_groups:
            raise ValueError(
                f'num_groups: expected a divisor of embed_dims ({embed_dims}), got {num_groups}.'
            )
        if gelu and num_groups > 1:
            raise ValueError(f'num_groups: expected 1 with gelu=True, got {num_groups}.')
        self.num_groups = num_groups
        self.gelu = gelu
        self.conv = depthwise(embed_dims // num_groups, kernel_size, gelu)

    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        return on_map(self._convolve, x_BNC, hw_shape)

    def _convolve(self, x_BCHW: Tensor) -> Tensor:
        if self.num_groups == 1:
            return self.conv(x_BCHW)
        # Repeated weights avoid a copy of the map to `(B * groups, C / groups, H, W)`.
        weight = self.conv.weight.repeat(self.num_groups, 1, 1, 1)
        assert self.conv.bias is not None
        bias = self.conv.bias.repeat(self.num_groups)
        return depthwise_conv(x_BCHW, weight, bias)


class LocalConcentration(BaseModule):
    """Local concentration module: `conv2(norm(gelu(conv1(x))))` with two depthwise convolutions and
    a batch norm.

    Source: L2ViT, eqs. 6 and 7 and Figure 5. The official detectors use plain batch norm, even for
    two images per GPU.

    Args:
        embed_dims: channels of the tokens.
        kernel_size: of both convolutions, odd.
    """

    def __init__(self, embed_dims: int, kernel_size: int = 7, init_cfg: dict | None = None) -> None:
        super().__init__(init_cfg)
        self.conv1 = depthwise(embed_dims, kernel_size, gelu=True)
        self.norm = nn.BatchNorm2d(embed_dims)
        self.conv2 = depthwise(embed_dims, kernel_size)

    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        return on_map(lambda x_BCHW: self.conv2(self.norm(self.conv1(x_BCHW))), x_BNC, hw_shape)


class NormalizedConv(BaseModule):
    """`gelu(norm2(conv(gelu(norm1(x)))))`, the layers between the two projections of L2ViT's
    locally improved MLP.

    Source: L2ViT, Table 12. Figure 4 shows norms and activations on both sides of the depthwise
    convolution. The text does not specify them; this module uses those of the local concentration
    module.

    Args:
        embed_dims: channels of the tokens.
        kernel_size: of the depthwise convolution, odd.
    """

    def __init__(self, embed_dims: int, kernel_size: int = 3, init_cfg: dict | None = None) -> None:
        super().__init__(init_cfg)
        self.norm1 = nn.BatchNorm2d(embed_dims)
        self.conv = depthwise(embed_dims, kernel_size)
        self.norm2 = nn.BatchNorm2d(embed_dims)

    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        return F.gelu(on_map(self._normalised, x_BNC, hw_shape))

    def _normalised(self, x_BCHW: Tensor) -> Tensor:
        return self.norm2(self.conv(F.gelu(self.norm1(x_BCHW))))
