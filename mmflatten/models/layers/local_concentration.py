"""Depthwise convolutions that give linear attention back its locality."""
from __future__ import annotations

from collections.abc import Callable

import torch
from mmcv.cnn import build_activation_layer, build_norm_layer
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.layers.tokens import map_to_tokens, split_prefix, tokens_to_map


def _depthwise(channels: int, kernel_size: int) -> nn.Conv2d:
    if kernel_size < 1 or kernel_size % 2 == 0:
        raise ValueError(f'kernel_size ({kernel_size}) must be odd and positive, so that the map keeps its size')
    return nn.Conv2d(channels, channels, kernel_size, padding=kernel_size // 2, groups=channels)


def _on_map(function: Callable[[Tensor], Tensor], x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
    """A function of the map of the tokens; tokens before the map (a class token) come out as zeros."""
    prefix, tokens = split_prefix(x_BNC, hw_shape)
    y_BNC = map_to_tokens(function(tokens_to_map(tokens, hw_shape)))
    return torch.cat((torch.zeros_like(prefix), y_BNC), dim=1) if prefix.shape[1] else y_BNC


class LocalConcentration(BaseModule):
    """Local concentration module: `conv2(norm(act(conv1(x))))` with two depthwise convolutions.

    Source: L2ViT, eqs. 6 and 7 and Figure 5.

    Args:
        embed_dims: channels of the tokens.
        kernel_size: of both convolutions, odd.
        norm_cfg: norm of the map. The official detectors keep plain batch norm, two images per GPU included.
    """

    def __init__(self, embed_dims: int, kernel_size: int = 7, norm_cfg: dict = dict(type='BN'),
                 act_cfg: dict = dict(type='GELU'), init_cfg: dict | None = None) -> None:
        super().__init__(init_cfg)
        self.conv1 = _depthwise(embed_dims, kernel_size)
        self.act = build_activation_layer(act_cfg)
        self.norm = build_norm_layer(norm_cfg, embed_dims)[1]
        self.conv2 = _depthwise(embed_dims, kernel_size)

    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        return _on_map(self._convolve, x_BNC, hw_shape)

    def _convolve(self, x_BCHW: Tensor) -> Tensor:
        return self.conv2(self.norm(self.act(self.conv1(x_BCHW))))


class NormalizedConv(BaseModule):
    """`norm2(conv(act(norm1(x))))`: with the activation behind it, the inside of a locally improved MLP.

    Source: L2ViT, Table 12. Figure 4 shows norms and activations on both sides of the depthwise convolution; the text
    leaves their kind open, and this takes those of the local concentration module.

    Args:
        embed_dims: channels of the tokens.
        kernel_size: of the depthwise convolution, odd.
        norm_cfg: norm of the map.
    """

    def __init__(self, embed_dims: int, kernel_size: int = 3, norm_cfg: dict = dict(type='BN'),
                 act_cfg: dict = dict(type='GELU'), init_cfg: dict | None = None) -> None:
        super().__init__(init_cfg)
        self.norm1 = build_norm_layer(norm_cfg, embed_dims)[1]
        self.act = build_activation_layer(act_cfg)
        self.conv = _depthwise(embed_dims, kernel_size)
        self.norm2 = build_norm_layer(norm_cfg, embed_dims)[1]

    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        return _on_map(self._normalize_and_convolve, x_BNC, hw_shape)

    def _normalize_and_convolve(self, x_BCHW: Tensor) -> Tensor:
        return self.norm2(self.conv(self.act(self.norm1(x_BCHW))))
