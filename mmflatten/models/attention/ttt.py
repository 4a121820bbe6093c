"""Test-time training instead of attention: ViT^3 and Transformer-to-TTT."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps
from mmflatten.models.layers import (
    FullRangeLinear,
    TokenConv,
    map_to_tokens,
    split_prefix,
    tokens_to_map,
)
from mmflatten.ops import (
    conv_test_time_training,
    gated_test_time_training,
    merge_heads,
    rotary_2d,
    split_heads,
    swiglu_test_time_training,
    upcast,
    widen,
)
from mmflatten.registry import MODELS


class TestTimeTraining(TokenMixer):
    """Mixer with inner weights, which it learns anew for each image.

    Raises:
        ValueError: padding is masked, because convolutions require whole maps.
    """

    splits_heads = False
    inner: tuple[str, ...] = ()
    """Names of the inner weights."""

    def reset_parameters(self) -> None:
        """Draw the inner weights from a truncated normal distribution with standard deviation
        0.02.
        """
        for name in self.inner:
            nn.init.trunc_normal_(getattr(self, name), std=0.02)

    def forward(self, x: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            raise ValueError(
                'mask: test-time training requires whole maps, got a mask. Use windows that divide'
                ' the map.'
            )
        return super().forward(x, hw_shape)


@MODELS.register_module()
class TTTAttention(TestTimeTraining):
    """Two small networks that learn `k -> v` by one step of gradient descent and are then applied
    to `q`.

    One is a gated linear layer per head, the other a depthwise 3 x 3 convolution of separate
    queries, keys and values as wide as one head. Source: ViT^3 (CVPR 2026). The result is not a
    linear function of the values. The convolution does not use prefix tokens.

    Args:
        rotary: rotate queries and keys of the first network by their positions, over all channels
            (H-ViT^3).
    """

    inner = ('value_weight', 'gate_weight', 'conv_weight')
    extra_inputs = ('d', 'd', 'd')

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        rotary: bool = False,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        width = embed_dims // num_heads
        self.rotary = rotary
        self.value_weight, self.gate_weight = (
            nn.Parameter(torch.empty(num_heads, width, width)) for _ in range(2)
        )
        self.conv_weight = nn.Parameter(torch.empty(width, 1, 3, 3))
        self.proj = FullRangeLinear(embed_dims + width, embed_dims)
        self.reset_parameters()

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, maps: Maps) -> Tensor:
        if self.rotary:
            q_BNC = rotary_2d(q_BNC, maps.hw, last_frequency=False).to(q_BNC.dtype)
            k_BMC = rotary_2d(k_BMC, maps.kv_hw, last_frequency=False).to(k_BMC.dtype)
        y_BhNd = gated_test_time_training(
            split_heads(q_BNC, self.num_heads),
            split_heads(k_BMC, self.num_heads),
            split_heads(widen(v_BMC), self.num_heads),
            value_hdd=self.value_weight,
            gate_hdd=self.gate_weight,
        )
        return merge_heads(y_BhNd)

    def finish(self, y_BNC: Tensor, maps: Maps) -> Tensor:
        """Concatenate the outputs of both networks."""
        inputs = []
        for x_BNd in maps.extra:
            _, tokens = split_prefix(x_BNd, maps.hw)
            inputs.append(tokens_to_map(tokens, maps.hw))
        q_BdHW, k_BdHW, v_BdHW = inputs
        local_BNd = map_to_tokens(
            conv_test_time_training(q_BdHW, k_BdHW, v_BdHW, weight_C1yx=self.conv_weight)
        )
        prefix = local_BNd.new_zeros(local_BNd.shape[0], maps.prefix, local_BNd.shape[2])
        local_BNd = torch.cat((prefix, local_BNd), dim=1)
        return torch.cat((y_BNC, local_BNd), dim=-1)


@MODELS.register_module()
class TransformerToTTTAttention(TestTimeTraining):
    """A SwiGLU network per head that learns `k -> v` by one step of gradient descent and is then
    applied to `q`.

    Its projections are those of softmax attention, whose weights it is meant to take over. Keys are
    normalised over the tokens of an image, for each channel, with an epsilon of 1; then a depthwise
    3 x 3 convolution is added to queries and one to keys. Source: Transformer-to-TTT (Li et al.,
    2026), released code of the ImageNet models, which have no prefix tokens. Here these are keys,
    counted in the norm, and queries, without a convolution.
    """

    inner = ('gate_weight', 'value_weight', 'out_weight')

    def __init__(
        self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], **kwargs
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        shape = num_heads, embed_dims // num_heads, embed_dims // num_heads
        self.gate_weight, self.value_weight, self.out_weight = (
            nn.Parameter(torch.empty(shape)) for _ in range(3)
        )
        self.q_conv = TokenConv(embed_dims, 3)
        self.k_conv = TokenConv(embed_dims, 3)
        self.reset_parameters()

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, maps: Maps) -> Tensor:
        # Normalise the keys over the tokens.
        (wide_BMC,) = upcast(k_BMC)
        wide_BMC = wide_BMC - wide_BMC.mean(dim=1, keepdim=True)
        variance_B1C = wide_BMC.square().mean(dim=1, keepdim=True)
        k_BMC = (wide_BMC * (variance_B1C + 1).rsqrt()).to(k_BMC.dtype)

        q_BNC = q_BNC + self.q_conv(q_BNC, maps.hw)
        k_BMC = k_BMC + self.k_conv(k_BMC, maps.kv_hw)
        y_BhNd = swiglu_test_time_training(
            split_heads(q_BNC, self.num_heads),
            split_heads(k_BMC, self.num_heads),
            split_heads(widen(v_BMC), self.num_heads),
            gate_hdd=self.gate_weight,
            value_hdd=self.value_weight,
            out_hdd=self.out_weight,
        )
        return merge_heads(y_BhNd)
