"""Neighbourhood attention."""
from __future__ import annotations

import torch
from torch import Tensor, nn

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps, require_whole_map
from mmflatten.ops import neighborhood_attention
from mmflatten.registry import MODELS


@MODELS.register_module()
class NeighborhoodAttention(TokenMixer):
    """Softmax attention to the nearest tokens, with a learned bias per head and offset.

    Source: Neighborhood Attention Transformer (Hassani et al., CVPR 2023); with dilation, Dilated NAT (2022). Without
    the bias, NATTEN's fused kernels are used on NVIDIA GPUs if NATTEN is installed.

    Args:
        kernel_size: side of the neighbourhood, odd.
        dilation: distance between neighbours in tokens.
        relative_position_bias: use the bias.

    Raises:
        ValueError: `kernel_size` or `dilation` is out of range, or there are prefix tokens, reduced keys or masked
            padding.
    """

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], *, kernel_size: int = 7,
                 dilation: int = 1, relative_position_bias: bool = True, **kwargs) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        if kernel_size < 1 or kernel_size % 2 == 0 or dilation < 1:
            raise ValueError(f'kernel_size ({kernel_size}) must be odd and positive, dilation ({dilation}) at least 1')
        self.kernel_size, self.dilation = kernel_size, dilation
        self.bias = None
        if relative_position_bias:
            self.bias = nn.Parameter(torch.zeros(num_heads, 2 * kernel_size - 1, 2 * kernel_size - 1))
            nn.init.trunc_normal_(self.bias, std=.02)

    def attend(self, q_BhNd: Tensor, k_BhNd: Tensor, v_BhNd: Tensor, maps: Maps) -> Tensor:
        require_whole_map(self, maps)
        return neighborhood_attention(q_BhNd, k_BhNd, v_BhNd, hw_shape=maps.hw, kernel_size=self.kernel_size,
                                      dilation=self.dilation, bias=self.bias)
