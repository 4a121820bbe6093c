"""Efficient attention."""
from __future__ import annotations

import torch
from torch import Tensor

from mmflatten.models.attention.base import TokenMixer, fill_masked
from mmflatten.ops import efficient_attention, merge_heads, split_heads
from mmflatten.registry import MODELS


@MODELS.register_module()
class EfficientAttention(TokenMixer):
    """Softmax of the queries over their channels, of the keys over the tokens.

    Source: Shen et al., Factorized (Efficient) Attention; FLatten, Table 3; L2ViT, Table 8.
    """

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, hw_shape: tuple[int, int],
               kv_shape: tuple[int, int], mask: Tensor | None) -> Tensor:
        k_BMC = fill_masked(k_BMC, mask, -torch.inf)
        q_BhNd, k_BhMd, v_BhMd = (split_heads(x, self.num_heads) for x in (q_BNC, k_BMC, v_BMC))
        return merge_heads(efficient_attention(q_BhNd, k_BhMd, v_BhMd))
