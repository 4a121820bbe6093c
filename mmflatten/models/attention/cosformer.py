"""cosFormer."""
from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from mmflatten.models.attention.base import TokenMixer, fill_masked
from mmflatten.ops import cosformer_map, linear_attention, merge_heads, split_heads, upcast
from mmflatten.registry import MODELS

_EPS = 1e-6


@MODELS.register_module()
class CosFormerAttention(TokenMixer):
    """ReLU linear attention whose scores fade with the distance on the map; the form on two axes is `cosformer_map`.

    Source: Qin et al., cosFormer, 2022; L2ViT, Table 8.
    """

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, hw_shape: tuple[int, int],
               kv_shape: tuple[int, int], mask: Tensor | None) -> Tensor:
        q_BNC, k_BMC = (F.relu(x) + _EPS for x in upcast(q_BNC, k_BMC))
        q_BhNd, k_BhMd, v_BhMd = (split_heads(x, self.num_heads) for x in (
            q_BNC, fill_masked(k_BMC, mask, 0.), v_BMC))
        return merge_heads(linear_attention(cosformer_map(q_BhNd, hw_shape), cosformer_map(k_BhMd, kv_shape), v_BhMd))
