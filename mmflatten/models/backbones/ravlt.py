"""Backbone of RALA, MALA, PolaFormer++ and NaLaFormer."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from mmflatten.models.attention import build_mixer
from mmflatten.models.backbones.arch import resolve_arch, stage_plan
from mmflatten.models.backbones.base import CONV_INIT
from mmflatten.models.backbones.letters import letter_mixers, parse_attn_types
from mmflatten.models.backbones.pyramid import PyramidBackbone, Stage
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
        (`MagnitudeAwareLinearAttention`, a
    `last_projection` of 2048), PolaFormer++ (`ExponentialPolarityAttention`, 2048) or NaLaFormer
    (`NormAwareLinearAttention`, `ffn_encoding=True`).

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

    droppable_weights = (*PyramidBackbone.droppable_weights, r'last_projection\..*')
    default_init = CONV_INIT

    def __init__(
        self,
        arch: str | dict = 'tiny',
        img_size: int | Sequence[int] = 224,
        attn_types: str | Sequence[str] = 'LLSS',
        linear_attention: dict | None = None,
        qkv_bias: bool = True,
        drop_path_rate: float = 0.1,
        mixers: dict | None = None,
        layer_scale: float | Sequence[float] | None = 1.0,
        ffn_encoding: bool = False,
        last_projection: int = 0,
        **kwargs,
    ) -> None:
        settings = resolve_arch(arch, ARCHS)
        mixers = letter_mixers(mixers, linear_attention, MIXERS)
        plan = stage_plan(
            settings,
            img_size,
            parse_attn_types(attn_types, settings['depths'], mixers),
            drop_path_rate,
        )
        scales = (
            layer_scale if isinstance(layer_scale, (list, tuple)) else [layer_scale] * len(plan)
        )
        if len(scales) != len(plan):
            raise ValueError(
                f'layer_scale: expected one number or one for each of the {len(plan)} stages, '
                f'got {layer_scale!r}.'
            )

        stages: list[Stage] = []
        for stage, scale in zip(plan, scales):
            dims, blocks = stage.embed_dims, []
            for letter, rate in stage.blocks:
                mixer = build_mixer(
                    mixers[letter],
                    embed_dims=dims,
                    num_heads=stage.num_heads,
                    grid_size=stage.grid,
                    qkv_bias=qkv_bias,
                )
                factors = None if scale is None else (dims, float(scale))
                attn = Residual(mixer, nn.LayerNorm(dims, 1e-6), rate, factors)
                ffn = Residual(
                    ConvFeedForward(dims, stage.hidden_dims),
                    nn.LayerNorm(dims, 1e-6),
                    rate,
                    factors,
                )
                second = dict(cpe2=Residual(TokenConv(dims, 3))) if ffn_encoding else {}
                blocks.append(Block(cpe=Residual(TokenConv(dims, 3)), attn=attn, **second, ffn=ffn))
            stages.append(Stage(_embed(stage.in_channels, dims, not stages), blocks))
        norms = (
            None if last_projection else [nn.LayerNorm(stage.embed_dims, 1e-6) for stage in plan]
        )
        super().__init__(stages, norms, **kwargs)
        self.last_channels = last_projection if self.is_whole else 0
        self.last_projection = (
            nn.Sequential(*conv_bn(plan[-1].embed_dims, last_projection, 1, bias=True), nn.SiLU())
            if self.last_channels
            else None
        )

    def forward(self, image_B3HW: Tensor) -> tuple[Tensor, ...]:
        *maps, last = super().forward(image_B3HW)
        return (*maps, last if self.last_projection is None else self.last_projection(last))


def _embed(in_channels: int, embed_dims: int, first: bool) -> ConvStack:
    """Return 3 x 3 convolutions with batch norm, and GELU between them: four in the first stage,
    then one.
    """
    half = embed_dims // 2
    convs = [(in_channels, embed_dims, 2)]
    if first:
        convs = [(in_channels, half, 2), (half, half, 1), (half, half, 1), (half, embed_dims, 2)]
    layers = [
        layer
        for inputs, channels, stride in convs
        for layer in (*conv_bn(inputs, channels, 3, stride, bias=True), nn.GELU())
    ]
    return ConvStack(layers[:-1], embed_dims, stride=4 if first else 2)
