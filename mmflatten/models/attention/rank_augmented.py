"""Rank-augmented linear attention."""
from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from mmflatten.models.attention.gated import GatedMixer
from mmflatten.models.attention.maps import Maps, fill_masked, mean_of_real, real_tokens
from mmflatten.ops import global_key_weights, linear_attention, rotary_2d, upcast, widen
from mmflatten.registry import MODELS


@MODELS.register_module()
class RankAugmentedLinearAttention(GatedMixer):
    """Linear attention with keys weighted by similarity to the mean query, with rotary positions and a gate.

    Source: RALA (Fan et al., CVPR 2025). The feature map is ELU + 1; the denominator does not use positions.
    """

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        q_BhNd, k_BhMd = (F.elu(x) + 1 for x in upcast(q_BhNd, k_BhMd))
        weights_BhM1 = global_key_weights(mean_of_real(q_BhNd, maps.mask), k_BhMd, real_tokens(k_BhMd, maps.mask))
        k_BhMd = fill_masked(k_BhMd * weights_BhM1, maps.mask, 0.)
        return linear_attention(q_BhNd, k_BhMd, widen(v_BhMd), rotated_q_BhNd=rotary_2d(q_BhNd, maps.hw),
                                rotated_k_BhMd=rotary_2d(k_BhMd, maps.kv_hw))
