"""Backbone of RALA, MALA, PolaFormer++ and NaLaFormer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from mmflatten.models.backbones.arch import BlockPlan, StagePlan
from mmflatten.models.backbones.base import CONV_INIT
from mmflatten.models.backbones.pyramid import PyramidBackbone
from mmflatten.models.layers import Block, ConvFeedForward, ConvStack, Residual, TokenConv, conv_bn
from mmflatten.registry import MODELS

_ARCH = dict(mlp_ratio=3.5)
ARCHS = {
    'tiny': dict(
        _ARCH, embed_dims=(64, 128, 256, 512), depths=(2, 2, 6, 2), num_heads=(1, 2, 4, 8)
    ),
    'small': dict(
        _ARCH, embed_dims=(64, 128, 320, 512), depths=(3, 5, 9, 3), num_heads=(1, 2, 5, 8)
    ),
    'base': dict(
        _ARCH, embed_dims=(96, 192, 384, 512), depths=(4, 6, 12, 6), num_heads=(1, 2, 6, 8)
    ),
    'large': dict(
        _ARCH, embed_dims=(96, 192, 448, 640), depths=(4, 7, 19, 8), num_heads=(1, 2, 7, 10)
    ),
    'extra-tiny': dict(
        _ARCH, embed_dims=(32, 64, 128, 384), depths=(2, 2, 2, 2), num_heads=(1, 2, 4, 12)
    ),
}
MIXERS = dict(L=dict(type='RankAugmentedLinearAttention'), S=dict(type='GatedSoftmaxAttention'))


@MODELS.register_module()
class RAVLT(PyramidBackbone):
    """Backbone with gated linear attention in the first stages, gated softmax in the last, and
    convolutions between.

    Source: RALA (Fan et al., CVPR 2025). With another mixer for `L` it is MAViT
    (`MagnitudeAwareLinearAttention`, a `last_projection` of 2048), PolaFormer++
    (`ExponentialPolarityAttention`, 2048) or NaLaFormer (`NormAwareLinearAttention`,
    `ffn_encoding=True`).

    Args:
        arch: 'tiny', 'small', 'base', 'large', NaLaFormer's 'extra-tiny', or a dict of
            `embed_dims`, `depths` and `num_heads`, each with a number per stage, and optionally
            `mlp_ratio`.
        layer_scale: initial scale of both branches, one value or one per stage; None for no
            scaling.
        ffn_encoding: add a second depthwise convolution before the feed-forward network.
        last_projection: channels of a 1 x 1 convolution with batch norm and SiLU after the last
            stage, for classification. With 0 there is none, and each returned map has a norm
            instead.
        img_size, attn_types, mixers, linear_attention, qkv_bias, drop_path_rate: as in `Backbone`.
        kwargs: `out_indices`, `frozen_stages`, `with_cp` and `init_cfg` of `Backbone`.
    """

    archs = ARCHS
    default_mixers = MIXERS
    norm_eps = 1e-6
    droppable_weights = (*PyramidBackbone.droppable_weights, r'last_projection\..*')
    default_init = CONV_INIT

    def __init__(
        self,
        arch: str | dict = 'tiny',
        *,
        attn_types: str | Sequence[str] = 'LLSS',
        drop_path_rate: float = 0.1,
        mixers: dict | None = None,
        layer_scale: float | Sequence[float | None] | None = 1.0,
        ffn_encoding: bool = False,
        last_projection: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            arch, letters=attn_types, drop_path_rate=drop_path_rate, mixers=mixers, **kwargs
        )
        self.layer_scales = _layer_scales(layer_scale, self.num_stages)
        self.ffn_encoding = ffn_encoding
        self.with_norms = not last_projection
        self.build()
        self.last_projection = None
        if last_projection and self.is_whole:
            self.last_channels = last_projection
            self.last_projection = nn.Sequential(
                *conv_bn(self.plan[-1].embed_dims, last_projection, kernel_size=1, bias=True),
                nn.SiLU(),
            )

    def make_block(self, stage: StagePlan, block: BlockPlan) -> Block:
        dims = stage.embed_dims
        scale = self.layer_scales[stage.index]

        def normed(fn: nn.Module) -> Residual:
            return Residual(
                fn,
                norm=nn.LayerNorm(dims, self.norm_eps),
                drop_path=block.drop_path,
                layer_scale=None if scale is None else (dims, float(scale)),
            )

        branches = dict(
            cpe=Residual(TokenConv(dims, 3)),
            attn=normed(self.make_mixer(stage, block)),
        )
        if self.ffn_encoding:
            branches['cpe2'] = Residual(TokenConv(dims, 3))
        branches['ffn'] = normed(ConvFeedForward(dims, stage.hidden_dims))
        return Block(**branches)

    def make_embed(self, stage: StagePlan) -> ConvStack:
        """Build 3 x 3 convolutions with batch norm, and GELU between them: four in the first stage,
        then one.
        """
        dims, half = stage.embed_dims, stage.embed_dims // 2
        if stage.index:
            layers = conv_bn(stage.in_channels, dims, kernel_size=3, stride=2, bias=True)
            return ConvStack(layers, dims, stride=2)
        layers = [
            *conv_bn(stage.in_channels, half, kernel_size=3, stride=2, bias=True),
            nn.GELU(),
            *conv_bn(half, half, kernel_size=3, bias=True),
            nn.GELU(),
            *conv_bn(half, half, kernel_size=3, bias=True),
            nn.GELU(),
            *conv_bn(half, dims, kernel_size=3, stride=2, bias=True),
        ]
        return ConvStack(layers, dims, stride=4)

    def make_output_norm(self, stage: StagePlan) -> nn.Module | None:
        return super().make_output_norm(stage) if self.with_norms else None

    def forward(self, image_B3HW: Tensor) -> tuple[Tensor, ...]:
        *maps, last = super().forward(image_B3HW)
        if self.last_projection is not None:
            last = self.last_projection(last)
        return (*maps, last)


def _layer_scales(
    layer_scale: float | Sequence[float | None] | None, stages: int
) -> Sequence[float | None]:
    """Return the initial scale of each stage, None for no scale."""
    if layer_scale is None or isinstance(layer_scale, (int, float)):
        return [layer_scale] * stages
    if len(layer_scale) != stages:
        raise ValueError(
            f'layer_scale: expected one number or one for each of the {stages} stages, got'
            f' {layer_scale!r}.'
        )
    return layer_scale
