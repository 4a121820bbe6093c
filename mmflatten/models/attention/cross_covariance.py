"""Cross-covariance attention of XCiT."""
from __future__ import annotations

import torch
from torch import Tensor, nn

from mmflatten.models.attention.base import TokenMixer, fill_masked
from mmflatten.ops import cross_covariance_attention, merge_heads, split_heads
from mmflatten.registry import MODELS


@MODELS.register_module()
class CrossCovarianceAttention(TokenMixer):
    """Attention between channels, XCA. Keys cannot be reduced: their covariance with the queries pairs them up.

    Source: Ali et al., XCiT, 2021; L2ViT, Table 8.
    """

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], *, sr_ratio: int = 1,
                 **kwargs) -> None:
        if sr_ratio != 1:
            raise ValueError(f'sr_ratio ({sr_ratio}) must be 1: XCA needs as many keys as queries')
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        self.temperature = nn.Parameter(torch.ones(num_heads, 1, 1))

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, hw_shape: tuple[int, int],
               kv_shape: tuple[int, int], mask: Tensor | None) -> Tensor:
        q_BNC, k_BMC = fill_masked(q_BNC, mask, 0.), fill_masked(k_BMC, mask, 0.)
        q_BhNd, k_BhMd, v_BhMd = (split_heads(x, self.num_heads) for x in (q_BNC, k_BMC, v_BMC))
        return merge_heads(cross_covariance_attention(q_BhNd, k_BhMd, v_BhMd, temperature=self.temperature))
