"""Manhattan attention of RMT."""
from __future__ import annotations

import torch
from torch import Tensor

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps, require_whole_map
from mmflatten.ops import manhattan_attention, rotary_1d
from mmflatten.registry import MODELS


@MODELS.register_module()
class ManhattanAttention(TokenMixer):
    """Softmax attention along rows and columns, with logits that fall with the distance, at a rate for each head.

    Head `i` of `h` falls by `ln(1 - 2 ** (-first - span i / h))` per token. Queries and keys are rotated by their place
    in the map, counted row after row. Source: RMT (Fan et al., CVPR 2024), the decomposed form of its first three
    stages.

    Args:
        first, span: of the rates.
        lepe_kernel: 5 in the paper.

    Raises:
        ValueError: prefix tokens, reduced keys or masked padding, which have no place in rows and columns.
    """

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], *, first: float = 2.,
                 span: float = 4., lepe_kernel: int = 5, **kwargs) -> None:
        super().__init__(embed_dims, num_heads, grid_size, lepe_kernel=lepe_kernel, **kwargs)
        rates = 1 - 2 ** (-first - span * torch.arange(num_heads) / num_heads)
        self.register_buffer('decay', rates.log(), persistent=False)

    def attend(self, q_BhNd: Tensor, k_BhNd: Tensor, v_BhNd: Tensor, maps: Maps) -> Tensor:
        require_whole_map(self, maps)
        q_BhNd, k_BhNd = rotary_1d(q_BhNd), rotary_1d(k_BhNd)
        return manhattan_attention(q_BhNd, k_BhNd, v_BhNd, decay_h=self.decay, hw_shape=maps.hw)
