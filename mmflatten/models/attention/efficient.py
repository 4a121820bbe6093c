"""Efficient attention."""
from __future__ import annotations

import torch
from torch import Tensor

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps, fill_masked
from mmflatten.ops import efficient_attention
from mmflatten.registry import MODELS


@MODELS.register_module()
class EfficientAttention(TokenMixer):
    """Linear attention with softmax of the queries over channels and of the keys over tokens.

    Source: Shen et al., Factorized (Efficient) Attention; FLatten, Table 3; L2ViT, Table 8.
    """

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        return efficient_attention(q_BhNd, fill_masked(k_BhMd, maps.mask, -torch.inf), v_BhMd)
