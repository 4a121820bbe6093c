"""Contract-and-broadcast self-attention (CBSA)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mmflatten.models.attention.base import square_side
from mmflatten.models.attention.maps import Maps, masked_logits, pool_real
from mmflatten.models.attention.own_projections import OwnProjections
from mmflatten.models.layers import Linear
from mmflatten.ops import contract_and_broadcast_attention, merge_heads, split_heads
from mmflatten.registry import MODELS


@MODELS.register_module()
class ContractBroadcastAttention(OwnProjections):
    """Attention through a few representatives, which are pooled tokens: they move towards the
    tokens, attend to each other, and are broadcast back.

    With one projection `w`, its means `R` over a grid and `A = softmax(s R w^T)`, the result is
    `u A^T softmax(s R' R'^T) R'` with `R' = R + t A w` and learned steps `t` and `u` per head.
    Source: CBSA (Wen et al., NeurIPS 2025) and its code, MIT. The code pools all tokens except the
    last, a class token and a shifted map; here the map is pooled, and prefix tokens are attended.

    Args:
        num_representatives: number of representatives, a square number.
        qkv_bias: use a bias in the projection, which the code does not.
    """

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        num_representatives: int = 64,
        qkv_bias: bool = True,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, qkv_bias=qkv_bias, **kwargs)
        self.side = square_side('num_representatives', num_representatives)
        self.qkv = Linear(embed_dims, embed_dims, bias=qkv_bias)
        self.contraction = nn.Parameter(torch.empty(num_heads, 1, 1))
        self.broadcast = nn.Parameter(torch.empty(num_heads, 1, 1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the steps from a standard normal distribution."""
        nn.init.normal_(self.contraction)
        nn.init.normal_(self.broadcast)

    def projections(
        self, x: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Maps]:
        assert self.qkv is not None
        w_BNC = self.qkv(x)
        prefix = x.shape[1] - hw_shape[0] * hw_shape[1]
        return w_BNC, w_BNC, w_BNC, Maps(hw_shape, hw_shape, mask, prefix)

    def attend(self, q_BNC: Tensor, k_BNC: Tensor, v_BNC: Tensor, maps: Maps) -> Tensor:
        k_BhNd = split_heads(k_BNC, self.num_heads)
        q_Bhad = self._representatives(q_BNC, maps)
        # Attention maps replace the values.
        is_shared = v_BNC is k_BNC
        y_BhNd = contract_and_broadcast_attention(
            q_Bhad,
            k_BhNd,
            k_BhNd if is_shared else split_heads(v_BNC, self.num_heads),
            pooled_Bhae=q_Bhad if is_shared else self._representatives(v_BNC, maps),
            contraction=self.contraction,
            bias=masked_logits(k_BhNd, maps.mask),
        )
        return merge_heads(y_BhNd * self.broadcast.to(y_BhNd.dtype))

    def _representatives(self, x_BNC: Tensor, maps: Maps) -> Tensor:
        return split_heads(pool_real(x_BNC, maps.hw, maps.mask, self.side), self.num_heads)
