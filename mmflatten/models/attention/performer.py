"""Performer's attention."""
from __future__ import annotations

from math import log

import torch
from torch import Tensor

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps, mean_of_real, real_tokens
from mmflatten.ops import linear_attention, orthogonal_features, random_feature_map
from mmflatten.registry import MODELS


@MODELS.register_module()
class PerformerAttention(TokenMixer):
    """Linear attention with positive random features, whose products approximate the softmax kernel.

    Source: Performer (Choromanski et al., ICLR 2021), FAVOR+. The random directions are drawn once and saved with the
    model.

    Args:
        num_features: number of features; `d ln d` by default.
        seed: random seed of the directions.
    """

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], *, num_features: int | None = None,
                 seed: int = 0, **kwargs) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        width = embed_dims // num_heads
        number = max(1, int(width * log(width))) if num_features is None else num_features
        generator = torch.Generator().manual_seed(seed)
        with torch.device('cpu'):
            features = orthogonal_features(number, width, generator)
        self.register_buffer('features', features.to(torch.get_default_device()))

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        q_BhNf = random_feature_map(q_BhNd, self.features, over_tokens=False)
        k_BhMf = random_feature_map(k_BhMd, self.features, over_tokens=True, real=real_tokens(k_BhMd, maps.mask))
        return linear_attention(q_BhNf, mean_of_real(k_BhMf, maps.mask), v_BhMd)
