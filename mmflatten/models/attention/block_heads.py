"""Token-level multi-head linear attention (MHLA)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.models.attention.base import TokenMixer, square_side
from mmflatten.models.attention.local_term import ValueConv
from mmflatten.models.attention.maps import Maps, fill_masked
from mmflatten.ops import block_linear_attention, merge_heads, no_autocast, split_heads, upcast
from mmflatten.registry import MODELS


@MODELS.register_module()
class TokenLevelMultiHeadAttention(TokenMixer):
    """Linear attention in which the queries of each block of the map mix the sums of all blocks by
    learned weights.

    Source: the released code of MHLA (ICLR 2026). It normalises the input once more, and its
    denominator has the queries of all blocks, where eq. 4 of the paper has each query's own
    (`own_sum=True`). The blocks form a square grid, the same number for any size of the map. The
    weights are initialised with `1 - distance / largest distance` between the centres of two
    blocks, normalised over the mixed blocks.

    Args:
        num_blocks: number of blocks, a square number.
        input_norm: normalise the input of the projections, in addition to the norm of the block.
        own_sum: divide by the sum of a query's own weights; see
            `mmflatten.ops.block_linear_attention`.
    """

    splits_heads = False  # the norms run over all channels

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        num_blocks: int = 16,
        input_norm: bool = True,
        own_sum: bool = False,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        self.norm = nn.LayerNorm(embed_dims) if input_norm else None
        self.lepe = ValueConv(embed_dims, 5)
        self.own_sum = own_sum
        self.q_norm, self.k_norm = (nn.Parameter(torch.ones(embed_dims)) for _ in range(2))
        self.mixing = nn.Parameter(_initial_mixing(square_side('num_blocks', num_blocks)))

    def projections(
        self, x: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Maps]:
        return super().projections(x if self.norm is None else self.norm(x), hw_shape, mask)

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, maps: Maps) -> Tensor:
        q_BNC, k_BMC = upcast(q_BNC, k_BMC)
        with no_autocast(q_BNC):
            q_BNC = F.relu(F.rms_norm(q_BNC, self.q_norm.shape, self.q_norm, eps=1e-6)) + 1e-6
            k_BMC = F.relu(F.rms_norm(k_BMC, self.k_norm.shape, self.k_norm, eps=1e-6)) + 1e-6
        k_BMC = fill_masked(k_BMC, maps.mask, 0.0)
        y_BhNd = block_linear_attention(
            split_heads(q_BNC, self.num_heads),
            split_heads(k_BMC, self.num_heads),
            split_heads(v_BMC, self.num_heads),
            mixing_bb=self.mixing,
            hw_shape=maps.hw,
            kv_shape=maps.kv_hw,
            own_sum=self.own_sum,
        )
        return merge_heads(y_BhNd)


def _initial_mixing(side: int) -> Tensor:
    """Initial mixing weights `(b, b)`; each column sums to 1."""
    steps = torch.arange(side, dtype=torch.float32)
    centres = torch.cartesian_prod(steps, steps)
    distance = torch.cdist(centres, centres)
    near = 1 - distance / distance.max().clamp(min=1)
    return near / near.sum(dim=0, keepdim=True)
