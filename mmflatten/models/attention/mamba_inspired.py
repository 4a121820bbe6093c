"""The linear attention of MILA (MLLA)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from mmflatten.models.attention.local_term import ValueConv
from mmflatten.models.attention.maps import Maps, fill_masked, mean_of_real
from mmflatten.models.attention.own_projections import OwnProjections, require_no_prefix
from mmflatten.models.layers import Linear, TokenConv
from mmflatten.ops import linear_attention, merge_heads, rotary_2d, split_heads, upcast, widen
from mmflatten.registry import MODELS


@MODELS.register_module()
class MambaInspiredLinearAttention(OwnProjections):
    """Linear attention in a Mamba block: the values are the convolved input, and the result is
    multiplied by a gate.

    With `u = silu(dwconv(W_in x))`, queries and keys are `elu + 1` of a projection of `u`, rotated
    by their positions over all channels in the numerator, and the result is
    `W_out((y + lepe(u)) * silu(W_act x))`. Source: Demystify Mamba in Vision (Han et al., NeurIPS
    2024) and its code.

    Raises:
        ValueError: there are prefix tokens, which the convolution would drop.
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
        self.lepe = ValueConv(embed_dims, 3)
        self.qkv = Linear(embed_dims, 2 * embed_dims, bias=qkv_bias)
        self.input, self.gate = (Linear(embed_dims, embed_dims) for _ in range(2))
        self.conv = TokenConv(embed_dims, 3)

    def projections(
        self, x: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Maps]:
        require_no_prefix(x, hw_shape)
        u_BNC = F.silu(self.conv(fill_masked(self.input(x), mask, 0.0), hw_shape))
        assert self.qkv is not None
        q_BNC, k_BNC = self.qkv(u_BNC).chunk(2, dim=-1)
        return q_BNC, k_BNC, u_BNC, Maps(hw_shape, hw_shape, mask, 0, (F.silu(self.gate(x)),))

    def attend(self, q_BNC: Tensor, k_BNC: Tensor, v_BNC: Tensor, maps: Maps) -> Tensor:
        q_BNC, k_BNC = (F.elu(x) + 1 for x in upcast(q_BNC, k_BNC))
        k_BNC = mean_of_real(k_BNC, maps.mask)
        rotated = (rotary_2d(x, maps.hw, last_frequency=False) for x in (q_BNC, k_BNC))
        q, k, v, rotated_q, rotated_k = (
            split_heads(x, self.num_heads) for x in (q_BNC, k_BNC, v_BNC, *rotated)
        )
        return merge_heads(
            linear_attention(q, k, widen(v), rotated_q_BhNd=rotated_q, rotated_k_BhMd=rotated_k)
        )

    def finish(self, y_BNC: Tensor, maps: Maps) -> Tensor:
        return widen(y_BNC) * maps.extra[0]
