"""Depthwise convolutions that complement linear attention with local features."""
from __future__ import annotations

import torch.nn.functional as F
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.layers.position import depthwise
from mmflatten.models.layers.tokens import on_map


class LocalConcentration(BaseModule):
    """Local concentration module: `conv2(norm(gelu(conv1(x))))` with two depthwise convolutions and a batch norm.

    Source: L2ViT, eqs. 6 and 7 and Figure 5. The official detectors use plain batch norm, even for two images per GPU.

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
        return on_map(self._convolve, x_BNC, hw_shape)

    def _convolve(self, x_BCHW: Tensor) -> Tensor:
        return self.conv2(self.norm(self.conv1(x_BCHW)))


class NormalizedConv(BaseModule):
    """`gelu(norm2(conv(gelu(norm1(x)))))`, the layers between the two projections of L2ViT's locally improved MLP.

    Source: L2ViT, Table 12. Figure 4 shows norms and activations on both sides of the depthwise convolution. The text
    does not specify them; this module uses those of the local concentration module.

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
        return F.gelu(on_map(self._normalize_and_convolve, x_BNC, hw_shape))

    def _normalize_and_convolve(self, x_BCHW: Tensor) -> Tensor:
        return self.norm2(self.conv(F.gelu(self.norm1(x_BCHW))))
