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
    """Softmax attention along rows and columns, with logits that decay with distance at a different rate per head.

    The logits of head `i` of `h` change by `ln(1 - 2 ** (-first - span i / h))` per token of distance. Queries and keys
    are rotated by their row-major index in the map. Source: RMT (Fan et al., CVPR 2024), the decomposed form of its
    first three stages.

    Args:
        first, span: parameters of the rates.
        lepe_kernel: kernel size of the convolution of the values, 5 in the paper.

    Raises:
        ValueError: prefix tokens, reduced keys or masked padding, which are not rows and columns of a map.
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
