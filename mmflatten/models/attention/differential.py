"""Gated differential linear attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps, require_whole_map
from mmflatten.models.layers import FullRangeLinear, on_map
from mmflatten.ops import linear_attention, merge_heads, split_heads, upcast, widen
from mmflatten.registry import MODELS


@MODELS.register_module()
class GatedDifferentialLinearAttention(TokenMixer):
    """Difference of two linear attentions over halves of each head, beside the same over convolved
    inputs.

    Queries and keys of a head are halved; both halves attend to all its values with ELU + 1 and a
    denominator each. The second result, times a learned factor per channel, is subtracted from the
    first. The difference is normalised and multiplied by a sigmoid gate. A local path does the same
    with queries, keys, values and gate behind a depthwise 3 x 3 and a 1 x 1 convolution; a
    projection joins both. Source: GDLA (Zheng et al., 2026), released code; the paper uses it in
    the decoder of a segmentor. `22 C^2` weights instead of `4 C^2`.

    Raises:
        ValueError: a head has an odd number of channels, or the tokens are not all those of a map.
    """

    splits_heads = False
    extra_inputs = ('C',)

    def __init__(
        self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], **kwargs
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        width = embed_dims // num_heads
        if width % 2:
            raise ValueError(
                f'num_heads: expected heads of an even number of channels, got {width}.'
            )
        self.local = nn.Sequential(
            nn.Conv2d(4 * embed_dims, 4 * embed_dims, 3, padding=1, groups=4 * embed_dims),
            nn.Conv2d(4 * embed_dims, 4 * embed_dims, 1),
        )
        self.factor, self.local_factor = (
            nn.Parameter(torch.empty(num_heads, 1, width)) for _ in range(2)
        )
        self.norm_weight = nn.Parameter(torch.ones(width))
        self.proj = FullRangeLinear(2 * embed_dims, embed_dims)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the factors from a normal distribution with standard deviation 0.1."""
        for factor in (self.factor, self.local_factor):
            nn.init.normal_(factor, std=0.1)

    def attend(self, q_BNC: Tensor, k_BNC: Tensor, v_BNC: Tensor, maps: Maps) -> Tensor:
        require_whole_map(self, maps)
        parts = q_BNC, k_BNC, v_BNC, maps.extra[0]
        local = on_map(self.local, torch.cat(parts, dim=-1), maps.hw).chunk(4, dim=-1)
        y_BNC = self._difference(parts, self.factor)
        local_BNC = self._difference(local, self.local_factor)
        return torch.cat((y_BNC, local_BNC), dim=-1)

    def _difference(self, parts: tuple[Tensor, ...], factor_h1d: Tensor) -> Tensor:
        q_BNC, k_BNC, v_BNC, gate_BNC = parts
        q_BNC, k_BNC = upcast(q_BNC, k_BNC)
        q_BhNd = F.elu(split_heads(q_BNC, self.num_heads)) + 1
        k_BhNd = F.elu(split_heads(k_BNC, self.num_heads)) + 1
        v_BhNd = split_heads(widen(v_BNC), self.num_heads)
        first_q, second_q = q_BhNd.chunk(2, dim=-1)
        first_k, second_k = k_BhNd.chunk(2, dim=-1)
        first_BhNd = linear_attention(first_q, first_k, v_BhNd)
        second_BhNd = linear_attention(second_q, second_k, v_BhNd)
        y_BhNd = first_BhNd - factor_h1d * second_BhNd

        # RMS norm of each head, then the gate.
        square_BhN1 = upcast(y_BhNd)[0].square().mean(-1, keepdim=True)
        y_BhNd = y_BhNd * (square_BhN1 + 1e-5).rsqrt() * self.norm_weight
        return merge_heads(y_BhNd) * gate_BNC.sigmoid()
