"""Test-time training instead of attention (ViT^3)."""
from __future__ import annotations

import torch
from torch import Tensor, nn

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps
from mmflatten.models.layers import FullRangeLinear, map_to_tokens, split_prefix, tokens_to_map
from mmflatten.ops import (
    conv_test_time_training,
    gated_test_time_training,
    merge_heads,
    rotary_2d,
    split_heads,
    widen,
)
from mmflatten.registry import MODELS


@MODELS.register_module()
class TTTAttention(TokenMixer):
    """Two small networks that learn `k -> v` by one step of gradient descent and are then applied to `q`.

    One is a gated linear layer per head, the other a depthwise 3 x 3 convolution of separate queries, keys and values
    as wide as one head. Source: ViT^3 (CVPR 2026). The result is not a linear function of the values. The convolution
    does not use prefix tokens.

    Args:
        rotary: rotate queries and keys of the first network by their positions, over all channels (H-ViT^3).

    Raises:
        ValueError: padding is masked, because the convolution requires whole maps.
    """

    splits_heads = False
    extra_inputs = ('d', 'd', 'd')

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], *, rotary: bool = False,
                 **kwargs) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        width = embed_dims // num_heads
        self.rotary = rotary
        self.value_weight, self.gate_weight = (nn.Parameter(torch.empty(num_heads, width, width)) for _ in range(2))
        self.conv_weight = nn.Parameter(torch.empty(width, 1, 3, 3))
        self.proj = FullRangeLinear(embed_dims + width, embed_dims)
        self.reset_parameters()

    def init_weights(self) -> None:
        super().init_weights()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the inner weights from a truncated normal distribution with standard deviation 0.02."""
        for weight in (self.value_weight, self.gate_weight, self.conv_weight):
            nn.init.trunc_normal_(weight, std=.02)

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, maps: Maps) -> Tensor:
        if maps.mask is not None:
            raise ValueError('mask: test-time training requires whole maps, got a mask. Use windows that divide the '
                             'map.')
        if self.rotary:
            q_BNC, k_BMC = (rotary_2d(x, hw, last_frequency=False).to(x.dtype)
                            for x, hw in ((q_BNC, maps.hw), (k_BMC, maps.kv_hw)))
        parts = (split_heads(x, self.num_heads) for x in (q_BNC, k_BMC, widen(v_BMC)))
        return merge_heads(gated_test_time_training(*parts, value_hdd=self.value_weight, gate_hdd=self.gate_weight))

    def finish(self, y_BNC: Tensor, maps: Maps) -> Tensor:
        """Concatenate the outputs of both networks."""
        local_BNd = map_to_tokens(conv_test_time_training(
            *(tokens_to_map(split_prefix(x, maps.hw)[1], maps.hw) for x in maps.extra), weight_C1yx=self.conv_weight))
        prefix = local_BNd.new_zeros(local_BNd.shape[0], maps.prefix, local_BNd.shape[2])
        return torch.cat((y_BNC, torch.cat((prefix, local_BNd), dim=1)), dim=-1)
