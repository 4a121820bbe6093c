"""Cross-covariance attention of XCiT."""
from __future__ import annotations

import torch
from torch import Tensor, nn

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps, fill_masked
from mmflatten.ops import cross_covariance_attention
from mmflatten.registry import MODELS


@MODELS.register_module()
class CrossCovarianceAttention(TokenMixer):
    """Attention between channels (XCA). Keys cannot be reduced, because their covariance pairs them with the queries.

    Source: Ali et al., XCiT, 2021; L2ViT, Table 8.
    """

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], *, sr_ratio: int = 1,
                 **kwargs) -> None:
        if sr_ratio != 1:
            raise ValueError(f'sr_ratio ({sr_ratio}) must be 1, because XCA needs as many keys as queries')
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        self.temperature = nn.Parameter(torch.ones(num_heads, 1, 1))

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        q_BhNd, k_BhMd = (fill_masked(x, maps.mask, 0.) for x in (q_BhNd, k_BhMd))
        return cross_covariance_attention(q_BhNd, k_BhMd, v_BhMd, temperature=self.temperature)
