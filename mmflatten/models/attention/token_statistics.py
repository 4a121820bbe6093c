"""Token statistics self-attention (TSSA)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mmflatten.models.attention.maps import Maps, real_tokens
from mmflatten.models.attention.own_projections import OwnProjections
from mmflatten.models.layers import Linear
from mmflatten.ops import merge_heads, split_heads, token_statistics_attention
from mmflatten.registry import MODELS


@MODELS.register_module()
class TokenStatisticsAttention(OwnProjections):
    """Attention without products between tokens: each head shrinks its channels by their second
    moments over the tokens that belong to it.

    With one projection `w`, the result is `-p w / (1 + m)`, where `p` is the membership of a token
    in a head, a softmax over the heads, and `m` the moments with weights `p`. Tokens influence each
    other through `m` and the lengths in `p` alone. Source: ToST (Wu et al., ICLR 2025), eq. 10, and
    its code, MIT, whose formula was read in the repository of CBSA. The code applies no weight
    decay to `temperature`.

    Args:
        qkv_bias: use a bias in the projection, which the code does not by default.
    """

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        qkv_bias: bool = True,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, qkv_bias=qkv_bias, **kwargs)
        self.qkv = Linear(embed_dims, embed_dims, bias=qkv_bias)
        self.temperature = nn.Parameter(torch.ones(num_heads, 1))

    def projections(
        self, x: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Maps]:
        assert self.qkv is not None
        w_BNC = self.qkv(x)
        prefix = x.shape[1] - hw_shape[0] * hw_shape[1]
        return w_BNC, w_BNC, w_BNC, Maps(hw_shape, hw_shape, mask, prefix)

    def attend(self, q_BNC: Tensor, k_BNC: Tensor, v_BNC: Tensor, maps: Maps) -> Tensor:
        real_BN1 = real_tokens(k_BNC, maps.mask)
        y_BhNd = token_statistics_attention(
            split_heads(k_BNC, self.num_heads),
            split_heads(v_BNC, self.num_heads),
            temperature_h1=self.temperature,
            real_B1N=None if real_BN1 is None else real_BN1.transpose(1, 2),
        )
        return merge_heads(y_BhNd)
