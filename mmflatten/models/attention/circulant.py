"""Circulant attention."""
from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps, require_whole_map
from mmflatten.models.layers import Linear
from mmflatten.ops import circulant_attention, widen
from mmflatten.registry import MODELS


@MODELS.register_module()
class CirculantAttention(TokenMixer):
    """Attention that depends only on the offset between tokens, with one head per channel and a gate.

    The map is treated as a torus; `num_heads` has no effect. Source: Circulant Attention (AAAI 2026), whose projections
    of queries, keys and values have no bias (`qkv_bias=False`).

    Raises:
        ValueError: prefix tokens, reduced keys or masked padding, because a circulant matrix covers exactly one map.
    """

    splits_heads = False
    multiplies = needs_input = True

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], **kwargs) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        self.gate = Linear(embed_dims, embed_dims)

    def attend(self, q_BNC: Tensor, k_BNC: Tensor, v_BNC: Tensor, maps: Maps) -> Tensor:
        require_whole_map(self, maps)
        return circulant_attention(q_BNC, k_BNC, v_BNC, hw_shape=maps.hw)

    def finish(self, y_BNC: Tensor, maps: Maps) -> Tensor:
        return widen(y_BNC) * F.silu(self.gate(maps.x))
