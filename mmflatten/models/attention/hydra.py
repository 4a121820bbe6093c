"""Hydra attention."""
from __future__ import annotations

from torch import Tensor

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps, fill_masked
from mmflatten.ops import hydra_attention
from mmflatten.registry import MODELS


@MODELS.register_module()
class HydraAttention(TokenMixer):
    """Linear attention with as many heads as channels; `num_heads` has no effect.

    Source: Bolya et al., Hydra Attention, 2022; FLatten, Table 3.
    """

    splits_heads = False

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, maps: Maps) -> Tensor:
        return hydra_attention(q_BNC, fill_masked(k_BMC, maps.mask, 0.), v_BMC)
