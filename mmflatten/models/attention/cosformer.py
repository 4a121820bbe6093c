"""cosFormer."""
from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps, fill_masked
from mmflatten.ops import cosformer_map, linear_attention, upcast
from mmflatten.registry import MODELS

_EPS = 1e-6


@MODELS.register_module()
class CosFormerAttention(TokenMixer):
    """ReLU linear attention whose scores decrease with the distance on the map; see `cosformer_map` for two axes.

    Source: Qin et al., cosFormer, 2022; L2ViT, Table 8.
    """

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        q_BhNd, k_BhMd = (F.relu(x) + _EPS for x in upcast(q_BhNd, k_BhMd))
        k_BhMd = fill_masked(k_BhMd, maps.mask, 0.)
        return linear_attention(cosformer_map(q_BhNd, maps.hw), cosformer_map(k_BhMd, maps.kv_hw), v_BhMd)
