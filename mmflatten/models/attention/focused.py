"""Focused linear attention of FLatten Transformer."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps, mean_of_real, values_at_queries, weights_of_real
from mmflatten.models.layers import GridTable, TokenConv
from mmflatten.ops import focused_features, linear_attention, merge_heads, no_autocast, split_heads, upcast
from mmflatten.ops.kernels import fused_linear_attention, pick_kernel
from mmflatten.registry import MODELS

_EPS = 1e-6


@MODELS.register_module()
class FocusedLinearAttention(TokenMixer):
    """Linear attention whose feature map sharpens directions, plus a depthwise convolution of the values.

    Source: FLatten Transformer, eqs. 6 and 12, and the official code, which adds a positional encoding of the keys and
    a learned scale per channel, and takes norms over all heads together.

    Args:
        focusing_factor: power `p` of the focused map. None omits the map and its scale, which gives linear attention
            with ReLU (Table 4, first row).
        kernel_size: of the depthwise convolution, whose weights all heads share. None omits it and the positional
            encoding (Table 4, second row).
        feature_floor: constant added to features without the focused map; 0 gives SLAB's simplified linear attention.
    """

    splits_heads = False  # the norms run over all heads

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], *,
                 focusing_factor: float | None = 3, kernel_size: int | None = 5,
                 feature_floor: float = _EPS, **kwargs) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        if focusing_factor is not None and focusing_factor <= 0:
            raise ValueError(f'focusing_factor: expected a positive number, or None for no focusing, '
                             f'got {focusing_factor}.')
        if feature_floor < 0 or (focusing_factor is not None and feature_floor == 0):
            raise ValueError('feature_floor: expected a positive number, or 0 with focusing_factor=None, '
                             f'got {feature_floor}.')
        self.focusing_factor, self.feature_floor = focusing_factor, feature_floor
        self.scale = nn.Parameter(torch.zeros(1, 1, embed_dims)) if focusing_factor else None
        self.positional_encoding = GridTable(embed_dims, grid_size) if kernel_size else None
        self.dwc = TokenConv(embed_dims, kernel_size, num_groups=num_heads) if kernel_size else None

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, maps: Maps) -> Tensor:
        if pick_kernel(q_BNC, k_BMC, v_BMC, width=q_BNC.shape[2] // self.num_heads, power=self.focusing_factor or 1,
                       feature_map='relu' if self.scale is None else 'focused'):
            return self._fused(q_BNC, k_BMC, v_BMC, maps)
        q_BhNd, k_BhMd = self._features(q_BNC), self._features(k_BMC, self._position(k_BMC, maps))
        k_BhMd, v_BhMd = mean_of_real(k_BhMd, maps.mask), split_heads(v_BMC, self.num_heads)
        if self.dwc is None:
            return merge_heads(linear_attention(q_BhNd, k_BhMd, v_BhMd))
        local_BNC = self.dwc(values_at_queries(v_BMC, maps), maps.hw)
        local_BhNd = split_heads(local_BNC, self.num_heads)
        return merge_heads(linear_attention(q_BhNd, k_BhMd, v_BhMd, local_BhNe=local_BhNd))

    def _fused(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, maps: Maps) -> Tensor:
        """`attend` as one fused operator, which has GPU kernels."""
        local_BhNd = None
        position_1MC = self._position(k_BMC, maps)
        position_hMd = None if position_1MC is None else split_heads(position_1MC, self.num_heads)[0]
        rescale_C = self._rescale()
        rescale_hd = None if rescale_C is None else rescale_C.view(self.num_heads, -1)
        if self.dwc is not None:
            local_BhNd = split_heads(self.dwc(values_at_queries(v_BMC, maps), maps.hw), self.num_heads)
        q_BhNd, k_BhMd, v_BhMd = (split_heads(x, self.num_heads) for x in (q_BNC, k_BMC, v_BMC))
        return merge_heads(fused_linear_attention(
            q_BhNd, k_BhMd, v_BhMd, feature_map='relu' if rescale_hd is None else 'focused', rescale_hd=rescale_hd,
            power=int(self.focusing_factor or 1), floor=self.feature_floor, position_hMd=position_hMd,
            weight_WM=weights_of_real(maps.mask), local_BhNd=local_BhNd))

    def _position(self, k_BMC: Tensor, maps: Maps) -> Tensor | None:
        """Positional encoding of the keys, `(1, M, C)`."""
        if self.positional_encoding is None:
            return None
        return self.positional_encoding.rows_of(k_BMC.shape[1], maps.kv_hw)

    def _rescale(self) -> Tensor | None:
        """Reciprocal of the learned scale of the features, `(C,)`, in float32."""
        return None if self.scale is None else F.softplus(upcast(self.scale)[0][0, 0]).reciprocal()

    def _features(self, x_BNC: Tensor, position_1NC: Tensor | None = None) -> Tensor:
        """Focused features of queries or keys, `(B, h, N, d)`, in float32 because cubes overflow float16."""
        with no_autocast(x_BNC):
            x_BNC = upcast(x_BNC)[0]
            rescale_C = self._rescale()
            if rescale_C is not None and self.focusing_factor is not None:
                return focused_features(x_BNC, rescale_C, self.num_heads, focusing_factor=self.focusing_factor,
                                        floor=self.feature_floor, position_1NC=position_1NC)
            x_BNC = F.relu(x_BNC if position_1NC is None else x_BNC + position_1NC) + self.feature_floor
            return split_heads(x_BNC, self.num_heads)
