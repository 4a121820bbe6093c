"""BiFormer-STL, the ablation model of BiFormer with the layout of Swin-T."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from mmflatten.models.backbones.arch import StagePlan
from mmflatten.models.backbones.pyramid import PyramidBackbone
from mmflatten.models.layers import ConvStack, TokenBatchNorm
from mmflatten.registry import MODELS

ARCHS = {'tiny': dict(embed_dims=96, depths=(2, 2, 6, 2), num_heads=(3, 6, 12, 24), mlp_ratio=4.0)}
# In the first three stages a region of the map attends to 1, 4 and 16 of 7 x 7 regions, in the last
# to all tokens.
MIXERS = dict(
    A=dict(type='BiLevelRoutingAttention', topk=1),
    B=dict(type='BiLevelRoutingAttention', topk=4),
    C=dict(type='BiLevelRoutingAttention', topk=16),
    S=dict(type='SoftmaxAttention', num_heads=8, qkv_bias=False, input_kernel=5),
)


@MODELS.register_module()
class BiFormerSTL(PyramidBackbone):
    """Swin-T's layout with bi-level routing attention, and batch norms between the stages.

    Source: the released code of BiFormer (Zhu et al., CVPR 2023). Batch norms follow the 4 x 4
    convolution of the stem, precede the 2 x 2 convolutions of downsampling and are the norms of the
    returned maps. The last stage has 8 heads.

    Args:
        arch: 'tiny', or a dict as in `Backbone`.
        attn_types, mixers, linear_attention: as in `Backbone`; 'A', 'B' and 'C' route to 1, 4 and
            16 regions.
        img_size, qkv_bias, drop_path_rate: as in `Backbone`.
        kwargs: `out_indices`, `frozen_stages`, `with_cp` and `init_cfg` of `Backbone`.
    """

    archs = ARCHS
    default_mixers = MIXERS
    norm_eps = 1e-6

    def __init__(
        self,
        arch: str | dict = 'tiny',
        *,
        attn_types: str | Sequence[str] = 'ABCS',
        drop_path_rate: float = 0.2,
        mixers: dict | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            arch, letters=attn_types, drop_path_rate=drop_path_rate, mixers=mixers, **kwargs
        )
        self.build()

    def make_embed(self, stage: StagePlan) -> ConvStack:
        dims = stage.embed_dims
        if stage.index == 0:
            layers = [nn.Conv2d(stage.in_channels, dims, 4, 4), nn.BatchNorm2d(dims)]
            return ConvStack(layers, dims, stride=4)
        layers = [nn.BatchNorm2d(stage.in_channels), nn.Conv2d(stage.in_channels, dims, 2, 2)]
        return ConvStack(layers, dims, stride=2)

    def make_output_norm(self, stage: StagePlan) -> TokenBatchNorm:
        return TokenBatchNorm(stage.embed_dims)
