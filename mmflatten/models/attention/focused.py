"""Focused linear attention of FLatten Transformer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.local_term import ValueConv
from mmflatten.models.attention.maps import Maps, weights_of_real
from mmflatten.models.layers import GridTable
from mmflatten.ops import merge_heads, split_heads, upcast
from mmflatten.ops.linear.kernels import fused_linear_attention
from mmflatten.registry import MODELS

_EPS = 1e-6


@MODELS.register_module()
class FocusedLinearAttention(TokenMixer):
    """Linear attention whose feature map sharpens directions, plus a depthwise convolution of the
    values.

    Source: FLatten Transformer, eqs. 6 and 12, and the official code, which adds a positional
        encoding of the keys and
    a learned scale per channel, and takes norms over all heads together.

    Args:
        focusing_factor: power `p` of the focused map. None omits the map and its scale, which gives
            linear attention with ReLU (Table 4, first row).
        kernel_size: of the depthwise convolution, whose weights all heads share. None omits it and
            the positional encoding (Table 4, second row).
        feature_floor: constant added to features without the focused map; 0 gives SLAB's simplified
            linear attention.
        per_head: take the norms of eq. 6 over each head, as the paper's letter, in PyTorch's
            operators alone.
    """

    splits_heads = False  # the norms run over all heads

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
        self.focusing_factor, self.feature_floor, self.per_head = (
            focusing_factor,
            feature_floor,
            per_head,
        )
        self.scale = nn.Parameter(torch.zeros(1, 1, embed_dims)) if focusing_factor else None
        self.positional_encoding = GridTable(embed_dims, grid_size) if kernel_size else None
        self.dwc = ValueConv(embed_dims, kernel_size, num_groups=num_heads) if kernel_size else None

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, maps: Maps) -> Tensor:
        h, position_hMd, local_BhNd, rescale_hd = self.num_heads, None, None, None
        if self.positional_encoding is not None:
            position_hMd = split_heads(
                self.positional_encoding.rows_of(k_BMC.shape[1], maps.kv_hw), h
            ).squeeze(0)
        if self.dwc is not None:
            local_BhNd = split_heads(self.dwc(v_BMC, maps), h)
        if self.scale is not None:
            rescale_hd = F.softplus(upcast(self.scale)[0]).reciprocal().view(h, -1)
        q_BhNd, k_BhMd, v_BhMd = (split_heads(x, h) for x in (q_BNC, k_BMC, v_BMC))
        return merge_heads(
            fused_linear_attention(
                q_BhNd,
                k_BhMd,
                v_BhMd,
                feature_map='relu' if rescale_hd is None else 'focused',
                rescale_hd=rescale_hd,
                power=self.focusing_factor or 1,
                floor=self.feature_floor,
                position_hMd=position_hMd,
                weight_WM=weights_of_real(maps.mask),
                local_BhNd=local_BhNd,
                per_head=self.per_head,
            )
        )
