"""Attentions between the tokens of a whole map, without prefix tokens, reduced keys or masked
padding.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.local_term import ValueConv
from mmflatten.models.attention.maps import Maps, require_whole_map
from mmflatten.models.layers import Linear, check_odd
from mmflatten.ops import (
    circulant_attention,
    manhattan_attention,
    neighborhood_attention,
    rotary_1d,
    routed_regions,
    routing_attention,
    widen,
)
from mmflatten.ops.sizes import ceil_div
from mmflatten.registry import MODELS


@MODELS.register_module()
class CirculantAttention(TokenMixer):
    """Attention that depends only on the offset between tokens, with one head per channel and a
    gate.

    The map is treated as a torus; `num_heads` has no effect. Prefix tokens, reduced keys and masked
    padding are rejected, because a circulant matrix covers exactly one map. Source: Circulant
    Attention (AAAI 2026), whose projections of queries, keys and values have no bias
    (`qkv_bias=False`).
    """

    splits_heads = False
    extra_inputs = ('x',)

    def __init__(
        self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], **kwargs
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        self.gate = Linear(embed_dims, embed_dims)

    def attend(self, q_BNC: Tensor, k_BNC: Tensor, v_BNC: Tensor, maps: Maps) -> Tensor:
        require_whole_map(self, maps)
        return circulant_attention(q_BNC, k_BNC, v_BNC, hw_shape=maps.hw)

    def finish(self, y_BNC: Tensor, maps: Maps) -> Tensor:
        return widen(y_BNC) * F.silu(self.gate(maps.extra[0]))


@MODELS.register_module()
class ManhattanAttention(TokenMixer):
    """Softmax attention along rows and columns, with logits that decay with distance at a different
    rate per head.

    Prefix tokens, reduced keys and masked padding are rejected, because they are not rows and
    columns of a map. The logits of head `i` of `h` change by `ln(1 - 2 ** (-first - span i / h))`
    per token of distance. Queries and keys are rotated by their row-major index in the map. Source:
    RMT (Fan et al., CVPR 2024), the decomposed form of its first three stages.

    Args:
        first, span: parameters of the rates.
    """

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        first: float = 2.0,
        span: float = 4.0,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        self.lepe = ValueConv(embed_dims, 5)
        rates = 1 - 2 ** (-first - span * torch.arange(num_heads) / num_heads)
        self.register_buffer('decay', rates.log(), persistent=False)

    def attend(self, q_BhNd: Tensor, k_BhNd: Tensor, v_BhNd: Tensor, maps: Maps) -> Tensor:
        require_whole_map(self, maps)
        q_BhNd, k_BhNd = rotary_1d(q_BhNd), rotary_1d(k_BhNd)
        return manhattan_attention(q_BhNd, k_BhNd, v_BhNd, decay_h=self.decay, hw_shape=maps.hw)


@MODELS.register_module()
class NeighborhoodAttention(TokenMixer):
    """Softmax attention to the nearest tokens, with a learned bias per head and offset.

    Prefix tokens, reduced keys and masked padding are rejected. Without the bias, NATTEN's fused
    kernels are used on NVIDIA GPUs if NATTEN is installed. Source: Neighborhood Attention
    Transformer (Hassani et al., CVPR 2023); with dilation, Dilated NAT (2022).

    Args:
        kernel_size: side of the neighbourhood, odd.
        dilation: distance between neighbours in tokens.
        relative_position_bias: use the bias.
    """

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        kernel_size: int = 7,
        dilation: int = 1,
        relative_position_bias: bool = True,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        check_odd(kernel_size)
        if dilation < 1:
            raise ValueError(f'dilation: expected at least 1, got {dilation}.')
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.bias = None
        if relative_position_bias:
            offsets = 2 * kernel_size - 1
            self.bias = nn.Parameter(torch.zeros(num_heads, offsets, offsets))
            nn.init.trunc_normal_(self.bias, std=0.02)

    def attend(self, q_BhNd: Tensor, k_BhNd: Tensor, v_BhNd: Tensor, maps: Maps) -> Tensor:
        require_whole_map(self, maps)
        return neighborhood_attention(
            q_BhNd,
            k_BhNd,
            v_BhNd,
            hw_shape=maps.hw,
            kernel_size=self.kernel_size,
            dilation=self.dilation,
            bias=self.bias,
        )


@MODELS.register_module()
class BiLevelRoutingAttention(TokenMixer):
    """Softmax attention of each region of the map to the `topk` regions with the most similar mean
    key.

    Source: BiFormer (Zhu et al., CVPR 2023). The regions form a square grid over a map of any size.
    The map is zero-padded to whole regions; padding is neither attended nor part of the means.
    Prefix tokens, reduced keys and masked padding are rejected.

    Args:
        num_regions: number of regions along each axis.
        topk: number of regions that each region attends to.
    """

    splits_heads = False

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        num_regions: int = 7,
        topk: int = 4,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        if num_regions < 1 or topk < 1:
            raise ValueError(
                f'num_regions, topk: expected at least 1, got {num_regions} and {topk}.'
            )
        self.num_regions = num_regions
        self.topk = topk
        self.lepe = ValueConv(embed_dims, 5)

    def attend(self, q_BNC: Tensor, k_BNC: Tensor, v_BNC: Tensor, maps: Maps) -> Tensor:
        require_whole_map(self, maps)
        real_BRn1 = self._regions(torch.ones_like(q_BNC[..., :1]), maps.hw)
        # A sum instead of a mean, because ONNX cannot fold a mean of constants.
        fraction_BR11 = (real_BRn1.sum(dim=2, keepdim=True) / real_BRn1.shape[2]).clamp(min=1e-6)
        q_BRnC, k_BRnC, v_BRnC = (self._regions(x, maps.hw) for x in (q_BNC, k_BNC, v_BNC))
        real_B1R = (real_BRn1.amax(dim=2) > 0).transpose(1, 2)
        routes = routed_regions(q_BRnC / fraction_BR11, k_BRnC / fraction_BR11, self.topk, real_B1R)
        bias_BRn1 = torch.zeros_like(real_BRn1).masked_fill(real_BRn1 == 0, -1e4)
        bias_B1Rn = bias_BRn1[..., 0].unsqueeze(1)
        q, k, v = (
            rearrange(x, 'B R n (h d) -> B h R n d', h=self.num_heads)
            for x in (q_BRnC, k_BRnC, v_BRnC)
        )
        y = routing_attention(q, k, v, routes, scale=q_BNC.shape[-1] ** -0.5, bias=bias_B1Rn)
        side = ceil_div(maps.hw[0], self.num_regions)
        y = rearrange(y, 'B h (Y X) (y x) d -> B (Y y) (X x) (h d)', Y=self.num_regions, y=side)
        return y[:, : maps.hw[0], : maps.hw[1]].flatten(1, 2)

    def _regions(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        """`(B, N, C) -> (B, R, n, C)`, zero-padded to whole regions."""
        H, W = hw_shape
        number = self.num_regions
        height, width = (ceil_div(length, number) * number for length in hw_shape)
        x = F.pad(x_BNC.unflatten(1, hw_shape), (0, 0, 0, width - W, 0, height - H))
        return rearrange(x, 'B (Y y) (X x) C -> B (Y X) (y x) C', Y=number, X=number)
