"""Focused linear attention of FLatten Transformer."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.models.attention.base import TokenMixer, fill_masked
from mmflatten.models.layers import GridTable, TokenConv
from mmflatten.ops import (
    focused_map,
    focused_query_map,
    linear_attention,
    merge_heads,
    no_autocast,
    split_heads,
    upcast,
)
from mmflatten.registry import MODELS

_EPS = 1e-6


@MODELS.register_module()
class FocusedLinearAttention(TokenMixer):
    """Linear attention whose feature map sharpens directions, plus a depthwise convolution of the values.

    Source: FLatten Transformer, eqs. 6 and 12, and the official code, which adds to them a positional encoding of the
    keys and a learned scale per channel, and takes the norms over all heads together.

    Args:
        focusing_factor: the power `p` of the focused map; None leaves the focused function and its scale out, which
            is linear attention with ReLU (Table 4, first row).
        kernel_size: of the depthwise convolution, whose weights the heads share; None leaves it and the positional
            encoding out (Table 4, second row).
    """

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], *,
                 focusing_factor: float | None = 3, kernel_size: int | None = 5, **kwargs) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        if focusing_factor is not None and focusing_factor <= 0:
            raise ValueError(f'focusing_factor ({focusing_factor}) must be positive, or None for no focusing')
        self.focusing_factor = focusing_factor
        self.scale = nn.Parameter(torch.zeros(1, 1, embed_dims)) if focusing_factor else None
        self.positional_encoding = GridTable(embed_dims, grid_size) if kernel_size else None
        self.dwc = TokenConv(embed_dims, kernel_size, num_groups=num_heads) if kernel_size else None

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, hw_shape: tuple[int, int],
               kv_shape: tuple[int, int], mask: Tensor | None) -> Tensor:
        if self.positional_encoding is not None:
            k_BMC = self.positional_encoding(k_BMC, kv_shape)
        q_BNC, k_BMC, eps = self._feature_map(q_BNC, k_BMC)
        if mask is not None:
            k_BMC = fill_masked(k_BMC, mask, 0.)
            # The operator takes means over all keys, padding included; `eps` must shrink with them.
            real_share = mask.to(k_BMC.dtype).mean(dim=-1)[:, :, None, None]
            eps = eps * real_share.repeat(k_BMC.shape[0] // mask.shape[0], 1, 1, 1)
        q_BhNd, k_BhMd, v_BhMd = (split_heads(x, self.num_heads) for x in (q_BNC, k_BMC, v_BMC))
        local_BhNd = None
        if self.dwc is not None:
            local_BNC = self.dwc(self.values_at_queries(v_BMC, hw_shape, kv_shape, mask), hw_shape)
            local_BhNd = split_heads(local_BNC, self.num_heads)
        return merge_heads(linear_attention(q_BhNd, k_BhMd, v_BhMd, eps=eps, local_BhNe=local_BhNd))

    def _feature_map(self, q_BNC: Tensor, k_BMC: Tensor) -> tuple[Tensor, Tensor, float | Tensor]:
        """Positive queries and keys in full precision, and the `eps` that goes with the queries' scale."""
        with no_autocast(q_BNC):
            q_BNC, k_BMC = (F.relu(x) for x in upcast(q_BNC, k_BMC))
            if self.focusing_factor is None:
                return q_BNC + _EPS, k_BMC + _EPS, _EPS
            rescale = F.softplus(self.scale).reciprocal()
            floor = _EPS * rescale
            q_BNC, inverse_factor = focused_query_map(torch.addcmul(floor, q_BNC, rescale), self.focusing_factor)
            k_BMC = focused_map(torch.addcmul(floor, k_BMC, rescale), self.focusing_factor)
            return q_BNC, k_BMC, _EPS * inverse_factor[:, None]
