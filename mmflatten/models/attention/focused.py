"""Focused linear attention of FLatten Transformer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.local_term import ValueConv
from mmflatten.models.attention.maps import Maps, weights_of_real
from mmflatten.models.layers import GridTable
from mmflatten.ops import upcast
from mmflatten.ops.linear.kernels import fused_linear_attention
from mmflatten.registry import MODELS

_EPS = 1e-6


@MODELS.register_module()
class FocusedLinearAttention(TokenMixer):
    """Linear attention whose feature map sharpens directions, plus a depthwise convolution of the
    values.

    Source: FLatten Transformer, eqs. 6 and 12, and the official code, which adds a positional
    encoding of the keys and a learned scale per channel, and computes norms over all heads.

    Args:
        focusing_factor: power `p` of the focused map. None omits the map and its scale, which gives
            linear attention with ReLU (Table 4, first row).
        kernel_size: of the depthwise convolution, whose weights all heads share. None omits it and
            the positional encoding (Table 4, second row).
        feature_floor: constant added to features without the focused map; 0 gives SLAB's simplified
            linear attention.
        per_head: compute the norms of eq. 6 per head, as printed in the paper; disables the fused
            kernels.
    """

    splits_heads = False  # norms over all heads

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        focusing_factor: float | None = 3,
        kernel_size: int | None = 5,
        feature_floor: float = _EPS,
        per_head: bool = False,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        if focusing_factor is not None and focusing_factor <= 0:
            raise ValueError(
                f'focusing_factor: expected a positive number, or None for no focusing, '
                f'got {focusing_factor}.'
            )
        if feature_floor < 0 or (focusing_factor is not None and feature_floor == 0):
            raise ValueError(
                'feature_floor: expected a positive number, or 0 with focusing_factor=None, '
                f'got {feature_floor}.'
            )
        self.focusing_factor = focusing_factor
        self.feature_floor = feature_floor
        self.per_head = per_head
        self.scale = nn.Parameter(torch.zeros(1, 1, embed_dims)) if focusing_factor else None
        self.positional_encoding = GridTable(embed_dims, grid_size) if kernel_size else None
        self.dwc = ValueConv(embed_dims, kernel_size, num_groups=num_heads) if kernel_size else None

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, maps: Maps) -> Tensor:
        position_MC = local_BNC = rescale_C = None
        if self.positional_encoding is not None:
            position_MC = self.positional_encoding.rows_of(k_BMC.shape[1], maps.kv_hw).squeeze(0)
        if self.dwc is not None:
            local_BNC = self.dwc(v_BMC, maps)
        if self.scale is not None:
            rescale_C = F.softplus(upcast(self.scale)[0]).reciprocal().flatten()
        return fused_linear_attention(
            q_BNC,
            k_BMC,
            v_BMC,
            self.num_heads,
            feature_map='relu' if rescale_C is None else 'focused',
            rescale_C=rescale_C,
            power=self.focusing_factor or 1,
            floor=self.feature_floor,
            position_MC=position_MC,
            weight_WM=weights_of_real(maps.mask),
            local_BNC=local_BNC,
            per_head=self.per_head,
        )
