"""Linear attentions with a feature map or normalisation each, as compared in FLatten (Table 3) and
L2ViT (Table 8).
"""

from __future__ import annotations

from math import log

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.local_term import LocalTerm, ValueConv
from mmflatten.models.attention.maps import (
    Maps,
    fill_masked,
    mask_weights,
    mean_of_real,
    real_tokens,
    values_at_queries,
)
from mmflatten.models.layers import check_odd
from mmflatten.ops import (
    angular_attention,
    cosformer_map,
    cross_covariance_attention,
    efficient_attention,
    hydra_attention,
    linear_attention,
    merge_heads,
    orthogonal_features,
    random_feature_map,
    sima_attention,
    split_heads,
    upcast,
)
from mmflatten.ops.linear.kernels import fused_linear_attention
from mmflatten.registry import MODELS

FEATURE_MAPS = ('elu', 'leaky_relu', 'relu')


@MODELS.register_module()
class LinearAttention(TokenMixer):
    """Normalised linear attention (Katharopoulos et al., 2020) with an elementwise feature map.

    Source: FLatten Transformer, Table 4, first row; L2ViT, Table 1.

    Args:
        feature_map: 'relu', 'elu' (ELU + 1) or 'leaky_relu'. L2ViT's fourth map, the L1 norm, has
            no denominator; use `SimAAttention`.
        min_denominator: lower bound of the summed denominator, none by default. With 'leaky_relu'
            scores can be negative, so the denominator can be close to zero.
    """

    splits_heads = False

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        feature_map: str = 'relu',
        min_denominator: float | None = None,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        if feature_map not in FEATURE_MAPS:
            raise ValueError(
                f'feature_map: expected one of {FEATURE_MAPS}, got {feature_map!r}. For the L1 '
                "norm of L2ViT's Table 1 use dict(type='SimAAttention')."
            )
        self.feature_map = feature_map
        self.min_denominator = min_denominator

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, maps: Maps) -> Tensor:
        return fused_linear_attention(
            q_BNC,
            k_BMC,
            v_BMC,
            self.num_heads,
            feature_map=self.feature_map,
            min_denominator=self.min_denominator,
            weight_WM=mask_weights(maps.mask),
        )


@MODELS.register_module()
class EnhancedLinearAttention(LinearAttention):
    """ReLU linear attention plus a depthwise convolution of the values.

    One reading of the "enhanced linear attention" of FLatten's Table 3. Its source, EfficientViT
    (Cai et al., ICCV 2023), has a 3 x 3 convolution in each feed-forward network instead:
    `conv_ffn` of `ViT` and `FLattenSwin`.
    """

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        kernel_size: int = 5,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        self.dwc = ValueConv(embed_dims, kernel_size)

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, maps: Maps) -> Tensor:
        return super().attend(q_BNC, k_BMC, v_BMC, maps) + self.dwc(v_BMC, maps)


@MODELS.register_module()
class EfficientAttention(TokenMixer):
    """Linear attention with softmax of the queries over channels and of the keys over tokens.

    Source: Shen et al., Factorized (Efficient) Attention; FLatten, Table 3; L2ViT, Table 8.
    """

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        return efficient_attention(q_BhNd, fill_masked(k_BhMd, maps.mask, -torch.inf), v_BhMd)


@MODELS.register_module()
class HydraAttention(TokenMixer):
    """Linear attention with as many heads as channels; `num_heads` has no effect.

    Source: Bolya et al., Hydra Attention, 2022; FLatten, Table 3.
    """

    splits_heads = False

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, maps: Maps) -> Tensor:
        return hydra_attention(q_BNC, fill_masked(k_BMC, maps.mask, 0.0), v_BMC)


@MODELS.register_module()
class SimAAttention(TokenMixer):
    """Attention without softmax, whose queries and keys have unit L1 norm over the tokens.

    Source: Koohpayegani and Pirsiavash, SimA, 2022; L2ViT, Table 8, and Table 1 as the "L1 norm".
    """

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        # The norm of the queries is also over tokens, so padding must be excluded there too.
        q_BhNd, k_BhMd = (fill_masked(x, maps.mask, 0.0) for x in (q_BhNd, k_BhMd))
        return sima_attention(q_BhNd, k_BhMd, v_BhMd)


@MODELS.register_module()
class CosFormerAttention(TokenMixer):
    """ReLU linear attention whose scores decrease with the distance on the map; see `cosformer_map`
    for two axes.

    Source: Qin et al., cosFormer, 2022; L2ViT, Table 8.
    """

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        q_BhNd, k_BhMd = (F.relu(x) + 1e-6 for x in upcast(q_BhNd, k_BhMd))
        k_BhMd = fill_masked(k_BhMd, maps.mask, 0.0)
        return linear_attention(
            cosformer_map(q_BhNd, maps.hw), cosformer_map(k_BhMd, maps.kv_hw), v_BhMd
        )


class _SequenceConv(LocalTerm, nn.Conv2d):
    """Convolution of the values `(B, h, N, d)` along the tokens."""


@MODELS.register_module()
class LinearAngularAttention(TokenMixer):
    """The linear part of the angular kernel, plus a convolution of the values along the flattened
    map.

    This is the inference form. In training, Castling-ViT adds an auxiliary branch, softmax
    attention thresholded to its large entries, which becomes sparser and finally vanishes. It is
    not implemented here, because FLatten's comparison uses only the linear part. Source: You et
    al., Castling-ViT, CVPR 2023; FLatten, Table 3.

    Args:
        kernel_size: of the convolution; all channels of a head share its weights.
    """

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        kernel_size: int = 9,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        check_odd(kernel_size)
        self.dwc = _SequenceConv(
            num_heads,
            num_heads,
            (kernel_size, 1),
            padding=(kernel_size // 2, 0),
            groups=num_heads,
            bias=False,
        )

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        k_BhMd = fill_masked(k_BhMd, maps.mask, 0.0)
        v_BhNd = split_heads(values_at_queries(merge_heads(v_BhMd), maps), self.num_heads)
        return angular_attention(q_BhNd, k_BhMd, v_BhMd, own_BhNe=v_BhNd) + self.dwc(v_BhNd)


@MODELS.register_module()
class CrossCovarianceAttention(TokenMixer):
    """Attention between channels (XCA). Keys cannot be reduced, because their covariance pairs them
    with the queries.

    Source: Ali et al., XCiT, 2021; L2ViT, Table 8.
    """

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        sr_ratio: int = 1,
        **kwargs,
    ) -> None:
        if sr_ratio != 1:
            raise ValueError(
                f'sr_ratio: expected 1, because XCA needs as many keys as queries, got {sr_ratio}.'
            )
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        self.temperature = nn.Parameter(torch.ones(num_heads, 1, 1))

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        q_BhNd, k_BhMd = (fill_masked(x, maps.mask, 0.0) for x in (q_BhNd, k_BhMd))
        return cross_covariance_attention(q_BhNd, k_BhMd, v_BhMd, temperature=self.temperature)


@MODELS.register_module()
class PerformerAttention(TokenMixer):
    """Linear attention with positive random features, whose products approximate the softmax
    kernel.

    Source: Performer (Choromanski et al., ICLR 2021), FAVOR+. The random directions are drawn once
    and saved with the model.

    Args:
        num_features: number of features; `d ln d` by default.
        seed: random seed of the directions.
    """

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        num_features: int | None = None,
        seed: int = 0,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        width = embed_dims // num_heads
        number = max(1, int(width * log(width))) if num_features is None else num_features
        generator = torch.Generator().manual_seed(seed)
        with torch.device('cpu'):
            features = orthogonal_features(number, width, generator)
        self.register_buffer('features', features.to(torch.get_default_device()))

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        q_BhNf = random_feature_map(q_BhNd, self.features, over_tokens=False)
        k_BhMf = random_feature_map(
            k_BhMd, self.features, over_tokens=True, real=real_tokens(k_BhMd, maps.mask)
        )
        return linear_attention(q_BhNf, mean_of_real(k_BhMf, maps.mask), v_BhMd)
