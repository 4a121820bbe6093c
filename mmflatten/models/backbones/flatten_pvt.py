"""FLatten-PVT, FLatten-PVTv2, PVT and PVTv2."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from torch import nn

from mmflatten.models.attention import TokenMixer
from mmflatten.models.backbones.arch import BlockPlan, StagePlan, per_stage
from mmflatten.models.backbones.base import DEFAULT_INIT, Backbone
from mmflatten.models.backbones.letters import FOCUSED, SOFTMAX
from mmflatten.models.backbones.pyramid import ClassTokenStage, PyramidBackbone, Stage
from mmflatten.models.layers import ConvEmbed, FeedForward, GridTable, TokenConv
from mmflatten.registry import MODELS

_WIDE = dict(
    embed_dims=(64, 128, 320, 512), num_heads=(1, 2, 5, 8), mlp_ratios=(8.0, 8.0, 4.0, 4.0)
)
ARCHS = {
    'tiny': dict(_WIDE, depths=(2, 2, 2, 2)),
    'small': dict(_WIDE, depths=(3, 4, 6, 3)),
    'medium': dict(_WIDE, depths=(3, 4, 18, 3)),
    'large': dict(_WIDE, depths=(3, 8, 27, 3)),
}
V2_ARCHS = {
    'b0': dict(_WIDE, embed_dims=(32, 64, 160, 256), depths=(2, 2, 2, 2)),
    'b1': dict(_WIDE, depths=(2, 2, 2, 2)),
    'b2': dict(_WIDE, depths=(3, 4, 6, 3)),
    'b3': dict(_WIDE, depths=(3, 4, 18, 3)),
    'b4': dict(_WIDE, depths=(3, 8, 27, 3)),
    'b5': dict(_WIDE, depths=(3, 6, 40, 3), mlp_ratios=(4.0, 4.0, 4.0, 4.0)),
}


@MODELS.register_module()
class FLattenPVT(PyramidBackbone):
    """Pyramid Vision Transformer with linear attention in some stages; 'SSSS' is PVT.

    Source: FLatten Transformer (ICCV 2023), Pyramid Vision Transformer (ICCV 2021). Maps are
    returned without norm: the official FLatten model has a norm after the last stage but never
    calls it. PVT's classifier uses a class token, which dense tasks omit; they load the
    classifier's weights without the token.

    Args:
        arch: 'tiny', 'small', 'medium', 'large', or a dict of `embed_dims`, `depths`, `num_heads`
            and optionally `mlp_ratios`, each with a number per stage.
        sr_ratios: per stage, factor by which softmax blocks reduce each side of the map of keys and
            values.
        linear_sr_ratios: the same for blocks of other letters.
        with_cls_token: build PVT's classifier, where a class token joins the last stage. That stage
            returns the normalised class token as a 1 x 1 map.
        img_size, attn_types, mixers, linear_attention, qkv_bias, drop_path_rate: as in `Backbone`.
        kwargs: `out_indices`, `frozen_stages`, `with_cp` and `init_cfg` of `Backbone`.
    """

    archs = ARCHS
    default_mixers = dict(L=FOCUSED, S=SOFTMAX)
    norm_eps = 1e-6
    # kernel size, stride and padding of the embeddings of the first stage and of the others
    patches = ((4, 4, 0), (2, 2, 0))
    droppable_weights = (*Backbone.droppable_weights, r'stages\.\d\.(embed\.cls_token|norm\..*)')

    def __init__(
        self,
        arch: str | dict = 'tiny',
        *,
        attn_types: str | Sequence[str] = 'LLLL',
        linear_sr_ratios: Sequence[int] = (1, 1, 1, 1),
        sr_ratios: Sequence[int] = (8, 4, 2, 1),
        drop_path_rate: float = 0.1,
        mixers: dict | None = None,
        with_cls_token: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            arch, letters=attn_types, drop_path_rate=drop_path_rate, mixers=mixers, **kwargs
        )
        self.linear_sr_ratios = per_stage('linear_sr_ratios', linear_sr_ratios, self.num_stages)
        self.sr_ratios = per_stage('sr_ratios', sr_ratios, self.num_stages)
        self.with_cls_token = with_cls_token
        self.build()

    def make_stage(self, stage: StagePlan, blocks: Sequence[nn.Module]) -> Stage:
        stage_class = ClassTokenStage if self._has_token(stage) else Stage
        return stage_class(
            self.make_embed(stage),
            blocks,
            norm=self.make_stage_norm(stage),
            position=self.make_position(stage),
        )

    def make_mixer(self, stage: StagePlan, block: BlockPlan) -> TokenMixer:
        ratios = self.sr_ratios if block.letter == 'S' else self.linear_sr_ratios
        ratio = ratios[stage.index]
        height, width = stage.grid
        return self.build_letter(
            stage,
            block.letter,
            grid_size=(ceil(height / ratio), ceil(width / ratio)),
            sr_ratio=ratio,
        )

    def make_embed(self, stage: StagePlan) -> ConvEmbed:
        kernel_size, stride, padding = self.patches[min(stage.index, 1)]
        return ConvEmbed(
            stage.in_channels,
            stage.embed_dims,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            class_token=self._has_token(stage),
        )

    def make_stage_norm(self, stage: StagePlan) -> nn.Module | None:
        """Build the norm at the end of a stage, before the next stage."""
        return nn.LayerNorm(stage.embed_dims, self.norm_eps) if self._has_token(stage) else None

    def make_position(self, stage: StagePlan) -> GridTable | None:
        """Build the positional table of a stage."""
        return GridTable(
            stage.embed_dims, stage.grid, num_prefix=int(self._has_token(stage)), std=0.02
        )

    def make_output_norm(self, stage: StagePlan) -> None:
        return None

    def _has_token(self, stage: StagePlan) -> bool:
        return self.with_cls_token and stage.is_last


@MODELS.register_module()
class FLattenPVTv2(FLattenPVT):
    """PVTv2 with linear attention in some stages; 'SSSS' is PVTv2.

    Source: FLatten Transformer (ICCV 2023), PVT v2 (2022). Differences from `FLattenPVT`:
    overlapping embeddings, a depthwise convolution in the feed-forward networks instead of
    positional tables, and a norm at the end of each stage, before both the returned map and the
    next stage.

    Args:
        arch: 'b0' to 'b5', or a dict as in `FLattenPVT`.
        kwargs: as in `FLattenPVT`.
    """

    archs = V2_ARCHS
    patches = ((7, 4, 3), (3, 2, 1))

    def __init__(self, arch: str | dict = 'b0', **kwargs: Any) -> None:
        super().__init__(arch, **kwargs)

    def make_ffn(self, stage: StagePlan, block: BlockPlan) -> FeedForward:
        conv = TokenConv(stage.hidden_dims, 3, gelu=True)
        return FeedForward(stage.embed_dims, stage.hidden_dims, conv)

    def make_stage_norm(self, stage: StagePlan) -> nn.LayerNorm:
        return nn.LayerNorm(stage.embed_dims, self.norm_eps)

    def make_position(self, stage: StagePlan) -> None:
        return None

    def init_weights(self) -> None:
        was_initialized = self.is_init  # MMEngine initialises only once
        super().init_weights()
        if was_initialized or self.init_cfg != DEFAULT_INIT:
            return
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                _init_conv(module)


def _init_conv(conv: nn.Conv2d) -> None:
    """Draw the weights from a normal distribution of variance 2 / fan-out, as the official code."""
    area = conv.kernel_size[0] * conv.kernel_size[1]
    fan_out = area * conv.out_channels // conv.groups
    nn.init.normal_(conv.weight, std=(2 / fan_out) ** 0.5)
    if conv.bias is not None:
        nn.init.zeros_(conv.bias)
