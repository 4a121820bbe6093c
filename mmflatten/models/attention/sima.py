"""SimA."""
from __future__ import annotations

from torch import Tensor

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps, fill_masked
from mmflatten.ops import sima_attention
from mmflatten.registry import MODELS


@MODELS.register_module()
class SimAAttention(TokenMixer):
    """Attention without softmax, whose queries and keys have unit L1 norm over the tokens.

    Source: Koohpayegani and Pirsiavash, SimA, 2022; L2ViT, Table 8, and Table 1 as the "L1 norm".
    """

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        # The norm of the queries is also over tokens, so padding must be excluded there too.
        q_BhNd, k_BhMd = (fill_masked(x, maps.mask, 0.) for x in (q_BhNd, k_BhMd))
        return sima_attention(q_BhNd, k_BhMd, v_BhMd)
