"""Magnitude-aware linear attention."""
from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from mmflatten.models.attention.gated import GatedMixer
from mmflatten.models.attention.maps import Maps, mean_of_real
from mmflatten.ops import magnitude_aware_attention, rotary_2d, upcast, widen
from mmflatten.registry import MODELS


@MODELS.register_module()
class MagnitudeAwareLinearAttention(GatedMixer):
    """Linear attention whose weights sum to 1 and become sharper with larger queries, with rotary positions and a gate.

    Source: MALA (Fan et al., ICCV 2025). The feature map is ELU + 1.
    """

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        q_BhNd, k_BhMd = (F.elu(x) + 1 for x in upcast(q_BhNd, k_BhMd))
        k_BhMd = mean_of_real(k_BhMd, maps.mask)
        v_BhMd = widen(v_BhMd)
        mean_v_Bh1d = mean_of_real(v_BhMd, maps.mask).mean(dim=-2, keepdim=True)
        return magnitude_aware_attention(q_BhNd, k_BhMd, v_BhMd, rotated_q_BhNd=rotary_2d(q_BhNd, maps.hw),
                                         rotated_k_BhMd=rotary_2d(k_BhMd, maps.kv_hw), mean_v_Bh1e=mean_v_Bh1d)
