"""SimA."""
from __future__ import annotations

from torch import Tensor

from mmflatten.models.attention.base import TokenMixer, fill_masked
from mmflatten.ops import merge_heads, sima_attention, split_heads
from mmflatten.registry import MODELS


@MODELS.register_module()
class SimAAttention(TokenMixer):
    """Attention of queries and keys with unit L1 norm along the tokens, without softmax.

    Source: Koohpayegani and Pirsiavash, SimA, 2022; L2ViT, Table 8, and Table 1 as the "L1 norm".
    """

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, hw_shape: tuple[int, int],
               kv_shape: tuple[int, int], mask: Tensor | None) -> Tensor:
        # The norm of the queries runs over tokens too, so padding must not count there either.
        q_BNC, k_BMC = fill_masked(q_BNC, mask, 0.), fill_masked(k_BMC, mask, 0.)
        q_BhNd, k_BhMd, v_BhMd = (split_heads(x, self.num_heads) for x in (q_BNC, k_BMC, v_BMC))
        return merge_heads(sima_attention(q_BhNd, k_BhMd, v_BhMd))
