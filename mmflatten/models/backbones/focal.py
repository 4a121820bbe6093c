"""Focal Transformer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from mmflatten.models.attention import FocalAttention
from mmflatten.models.backbones.arch import (
    StagePlan,
    check_side,
    per_stage,
    resolve_arch,
    stage_plan,
)
from mmflatten.models.backbones.pyramid import PyramidBackbone, Stage
from mmflatten.models.layers import ConvEmbed, FeedForward, pre_norm_block
from mmflatten.registry import MODELS

ARCHS = {
    'tiny': dict(embed_dims=96, depths=(2, 2, 6, 2), num_heads=(3, 6, 12, 24), mlp_ratio=4.0),
    'small': dict(embed_dims=96, depths=(2, 2, 18, 2), num_heads=(3, 6, 12, 24), mlp_ratio=4.0),
    'base': dict(embed_dims=128, depths=(2, 2, 18, 2), num_heads=(4, 8, 16, 32), mlp_ratio=4.0),
    # The paper states 196 channels, which 48 heads do not divide. Swin-L, on which it is based, has
    # 192.
    'large': dict(embed_dims=192, depths=(2, 2, 18, 2), num_heads=(6, 12, 24, 48), mlp_ratio=4.0),
}


@MODELS.register_module()
class FocalTransformer(PyramidBackbone):
    """Backbone whose windows attend to themselves, their neighbours and pooled windows farther
    away.

    Source: Focal Transformer (NeurIPS 2021), version 1 of the official code; see `FocalAttention`
        for its quirks.
    `forward` accepts any image size; `img_size` determines which stages have neighbours and the
    size of their windows.

    Detectors use larger pooled regions on larger maps (sec. 4.2):
    `focal_windows=(15, 13, 9, 7), expand_always=True`. When they load a classifier, tables of the
    pooled regions are resized, and the neighbour tables of the last stage, which classifiers lack,
    keep their initial values.

    Args:
        arch: 'tiny', 'small', 'base', 'large', or a dict as in `Backbone`.
        window_size: side of the windows.
        focal_windows: side of the region of pooled windows, per stage; odd.
        focal_levels: number of granularities including the fine one, one number or one per stage.
        expand_size: width in tokens of the neighbourhood around a window, one number or one per
            stage.
        expand_always: use neighbours also in stages whose map in pre-training is not larger than
            the window.
        shift: shift the windows of every second block (Table 7).
        local: attend to neighbours (Figure 5).
        global_: attend to pooled windows (Figure 5).
        neighbor_boundary: 'wrap' connects windows at the border to the opposite side, as the
            official classifiers do. 'mask' excludes these neighbours, and neighbours and pooled
            tokens that consist only of padding.
        bias_by_query: False has one bias per pooled window, the paper's `B^l`; the official code's
            is per offset.
        conv_embed: use overlapping convolutions, 7 x 7 in the stem and 3 x 3 between the stages.
        img_size, qkv_bias, mask_padding, drop_path_rate: as in `Backbone`.
        kwargs: `out_indices`, `frozen_stages`, `with_cp` and `init_cfg` of `Backbone`.
    """

    def __init__(
        self,
        arch: str | dict = 'tiny',
        img_size: int | Sequence[int] = 224,
        window_size: int = 7,
        focal_windows: Sequence[int] = (7, 5, 3, 1),
        focal_levels: int | Sequence[int] = 2,
        expand_size: int | Sequence[int] = 3,
        expand_always: bool = False,
        conv_embed: bool = False,
        shift: bool = False,
        local: bool = True,
        global_: bool = True,
        neighbor_boundary: str = 'wrap',
        qkv_bias: bool = True,
        mask_padding: bool = False,
        bias_by_query: bool = True,
        drop_path_rate: float = 0.2,
        **kwargs,
    ) -> None:
        settings = resolve_arch(arch, ARCHS)
        depths = settings['depths']
        regions = per_stage('focal_windows', focal_windows, len(depths))
        levels = per_stage('focal_levels', focal_levels, len(depths), repeat=True)
        expand = per_stage('expand_size', expand_size, len(depths), least=0, repeat=True)
        check_side('window_size', window_size)
        plan = stage_plan(settings, img_size, ['F' * depth for depth in depths], drop_path_rate)
        shared: dict[str, Any] = dict(
            window_size=window_size,
            expand_always=expand_always,
            local=local,
            global_=global_,
            neighbor_boundary=neighbor_boundary,
            qkv_bias=qkv_bias,
            mask_padding=mask_padding,
            bias_by_query=bias_by_query,
        )

        stages = []
        for i, stage in enumerate(plan):
            dims, blocks = stage.embed_dims, []
            for j, (_, rate) in enumerate(stage.blocks):
                mixer = FocalAttention(
                    dims,
                    stage.num_heads,
                    stage.grid,
                    focal_window=regions[i],
                    focal_levels=levels[i],
                    expand_size=expand[i],
                    shift=shift and j % 2 == 1,
                    **shared,
                )
                blocks.append(
                    pre_norm_block(mixer, FeedForward(dims, stage.hidden_dims), dims, rate)
                )
            stages.append(Stage(_embed(stage, i == 0, conv_embed), blocks))
        super().__init__(stages, [nn.LayerNorm(stage.embed_dims) for stage in plan], **kwargs)
        if expand_always:
            self.new_weights = (*self.new_weights, r'stages\..*\.neighbor_bias\.table')


def _embed(stage: StagePlan, first: bool, overlapping: bool) -> ConvEmbed:
    if first:
        return (
            ConvEmbed(3, stage.embed_dims, 7, 4, 2)
            if overlapping
            else ConvEmbed(3, stage.embed_dims, 4, 4)
        )
    kernel_size, padding = (3, 1) if overlapping else (2, 0)
    return ConvEmbed(stage.in_channels, stage.embed_dims, kernel_size, 2, padding)
