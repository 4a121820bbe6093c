"""Multi-scale linear attention of EfficientViT."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps, fill_masked, mean_of_real
from mmflatten.models.layers import Linear, TokenBatchNorm, check_odd, on_map
from mmflatten.ops import linear_attention, merge_heads, split_heads, upcast
from mmflatten.registry import MODELS


@MODELS.register_module()
class MultiScaleLinearAttention(TokenMixer):
    """ReLU linear attention on the tokens and, in additional heads, on aggregated neighbourhoods.

    A depthwise convolution and a 1 x 1 convolution with one group per head compute a second set of
    queries, keys and values from the first. Both results are projected together, followed by batch
    normalisation. Source: EfficientViT (Cai et al., ICCV 2023), sec. 3.1, LiteMLA. Prefix tokens
    are only in the first set.

    Args:
        kernel_size: of the depthwise convolution, odd.
        sr_ratio: must be 1, because queries, keys and values are aggregated on one map.
    """

    splits_heads = False

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        kernel_size: int = 5,
        sr_ratio: int = 1,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        if sr_ratio != 1:
            raise ValueError(f'sr_ratio: expected 1 in MultiScaleLinearAttention, got {sr_ratio}.')
        check_odd(kernel_size)
        self.aggregate = nn.Sequential(
            nn.Conv2d(
                3 * embed_dims,
                3 * embed_dims,
                kernel_size,
                padding=kernel_size // 2,
                groups=3 * embed_dims,
                bias=False,
            ),
            nn.Conv2d(3 * embed_dims, 3 * embed_dims, 1, groups=3 * num_heads, bias=False),
        )
        self.proj = NormedProjection(2 * embed_dims, embed_dims)

    def attend(self, q_BNC: Tensor, k_BNC: Tensor, v_BNC: Tensor, maps: Maps) -> Tensor:
        first = (q_BNC, k_BNC, v_BNC)
        tokens = fill_masked(torch.cat(first, dim=-1), maps.mask, 0.0)
        second = on_map(self.aggregate, tokens, maps.hw).chunk(3, dim=-1)
        # The heads of the second set follow those of the first.
        both = (torch.cat(parts, dim=-1) for parts in zip(first, second))
        q, k, v = (split_heads(x, 2 * self.num_heads) for x in both)
        q, k = (F.relu(x) + 1e-6 for x in upcast(q, k))
        return merge_heads(linear_attention(q, mean_of_real(k, maps.mask), v))


class NormedProjection(nn.Module):
    """Projection of tokens without bias, followed by batch normalisation."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.linear = Linear(in_channels, out_channels, bias=False)
        self.norm = TokenBatchNorm(out_channels)

    def forward(self, x_BNC: Tensor) -> Tensor:
        return self.norm(self.linear(x_BNC))
