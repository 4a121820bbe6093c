"""Norm-aware linear attention of NaLaFormer."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.models.attention.gated import GatedMixer
from mmflatten.models.attention.maps import Maps, mean_of_real
from mmflatten.ops import linear_attention, no_autocast, positive_power, rotary_2d, signed_parts, upcast, widen
from mmflatten.registry import MODELS


@MODELS.register_module()
class NormAwareLinearAttention(GatedMixer):
    """Linear attention with queries raised to a power that grows with their norm, followed by a norm and a gate.

    With `x+- = relu(+-x)`, the features of queries are `[q+, q-] / |q|` to the power `3 (1/2 + tanh |q|)`, those of
    keys `[k+, k-]` of the cubed keys. In the numerator each half is rotated by its position. Source: the released code
    of NaLaFormer (Meng et al., 2025), which does not contain the cosine map of the paper.
    """

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], **kwargs) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        self.norm = nn.LayerNorm(embed_dims)

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        q_BhNd, k_BhMd = upcast(q_BhNd, k_BhMd)
        with no_autocast(q_BhNd):
            length_BhN1 = torch.linalg.vector_norm(q_BhNd, dim=-1, keepdim=True).clamp(min=1e-6)
            q_BhNf = positive_power(signed_parts(q_BhNd / length_BhN1), 3 * (.5 + length_BhN1.tanh()))
            k_BhMf = mean_of_real(signed_parts(k_BhMd ** 3), maps.mask)
        rotated_q, rotated_k = (torch.cat([rotary_2d(part, hw) for part in x.chunk(2, dim=-1)], dim=-1)
                                for x, hw in ((q_BhNf, maps.hw), (k_BhMf, maps.kv_hw)))
        return linear_attention(q_BhNf, k_BhMf, widen(v_BhMd), rotated_q_BhNd=rotated_q, rotated_k_BhMd=rotated_k)

    def finish(self, y_BNC: Tensor, maps: Maps) -> Tensor:
        return self.norm(y_BNC.to(next(self.norm.parameters()).dtype)) * F.silu(maps.extra[0])
