"""Linear attention with simple feature maps."""
from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps, fill_masked, real_or_not
from mmflatten.ops import linear_attention, upcast
from mmflatten.ops.kernels import fused_linear_attention, pick_kernel
from mmflatten.registry import MODELS

_EPS = 1e-6

FEATURE_MAPS: dict[str, Callable[[Tensor], Tensor]] = {
    'relu': lambda x: F.relu(x) + _EPS,
    'elu': lambda x: F.elu(x) + 1,
    'leaky_relu': F.leaky_relu,
}


@MODELS.register_module()
class LinearAttention(TokenMixer):
    """Normalised linear attention (Katharopoulos et al., 2020) with an elementwise feature map.

    Source: FLatten Transformer, Table 4, first row; L2ViT, Table 1.

    Args:
        feature_map: 'relu', 'elu' (ELU + 1) or 'leaky_relu'. L2ViT's fourth map, the L1 norm, has no denominator; use
            `SimAAttention`.
        min_denominator: lower bound of the summed denominator, none by default. With 'leaky_relu' scores can be
            negative, so the denominator can be close to zero.
    """

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], *, feature_map: str = 'relu',
                 min_denominator: float | None = None, **kwargs) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        if feature_map not in FEATURE_MAPS:
            raise ValueError(f'feature_map ({feature_map!r}) must be one of {sorted(FEATURE_MAPS)}; the L1 norm of '
                             "L2ViT's Table 1 is dict(type='SimAAttention')")
        self.map_name, self.feature_map = feature_map, FEATURE_MAPS[feature_map]
        self.min_denominator = min_denominator

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        if pick_kernel(q_BhNd, k_BhMd, v_BhMd, width=q_BhNd.shape[-1]):
            return fused_linear_attention(q_BhNd, k_BhMd, v_BhMd, feature_map=self.map_name, floor=_EPS,
                                          min_denominator=self.min_denominator, weight_WM=real_or_not(maps.mask))
        q_BhNd, k_BhMd = (self.feature_map(x) for x in upcast(q_BhNd, k_BhMd))
        k_BhMd = fill_masked(k_BhMd, maps.mask, 0.)
        return linear_attention(q_BhNd, k_BhMd, v_BhMd, min_denominator=self.min_denominator)
