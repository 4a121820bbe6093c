"""Focal Transformer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mmflatten.models.attention import FocalAttention
from mmflatten.models.backbones.arch import BlockPlan, StagePlan, check_side, per_stage
from mmflatten.models.backbones.pyramid import PyramidBackbone
from mmflatten.models.layers import ConvEmbed
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
    for its quirks. `forward` accepts any image size; `img_size` determines which stages have
    neighbours and the size of their windows.

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

    The other arguments are those of `Backbone`.
    """

    archs = ARCHS

    def __init__(
        self,
        arch: str | dict = 'tiny',
        *,
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
        out_indices: Sequence[int] = (0, 1, 2, 3),
        frozen_stages: int = -1,
        with_cp: bool = False,
        progressive_norm: int = 0,
        in_channels: int = 3,
        init_cfg: dict | list | None = None,
    ) -> None:
        super().__init__(
            arch,
            letters='F',  # all blocks have the family's attention
            img_size=img_size,
            qkv_bias=qkv_bias,
            drop_path_rate=drop_path_rate,
            out_indices=out_indices,
            frozen_stages=frozen_stages,
            with_cp=with_cp,
            progressive_norm=progressive_norm,
            in_channels=in_channels,
            init_cfg=init_cfg,
        )
        check_side('window_size', window_size)
        stages = self.num_stages
        self.focal_windows = per_stage('focal_windows', focal_windows, stages)
        self.focal_levels = per_stage('focal_levels', focal_levels, stages, repeat=True)
        self.expand_sizes = per_stage('expand_size', expand_size, stages, least=0, repeat=True)
        self.shift = shift
        self.conv_embed = conv_embed
        # arguments of the attention that do not depend on the stage
        self.attention: dict[str, Any] = dict(
            window_size=window_size,
            expand_always=expand_always,
            local=local,
            global_=global_,
            neighbor_boundary=neighbor_boundary,
            qkv_bias=self.qkv_bias,
            mask_padding=mask_padding,
            bias_by_query=bias_by_query,
        )
        if expand_always:
            self.new_weights = (*self.new_weights, r'stages\..*\.neighbor_bias\.table')
        self.build()

    def parse_letters(self, letters: str | Sequence[str], depths: Sequence[int]) -> list[str]:
        return ['F' * depth for depth in depths]

    def make_mixer(self, stage: StagePlan, block: BlockPlan) -> FocalAttention:
        return FocalAttention(
            stage.embed_dims,
            stage.num_heads,
            stage.grid,
            focal_window=self.focal_windows[stage.index],
            focal_levels=self.focal_levels[stage.index],
            expand_size=self.expand_sizes[stage.index],
            shift=self.shift and block.index % 2 == 1,
            **self.attention,
        )

    def make_embed(self, stage: StagePlan) -> ConvEmbed:
        kernel_size = stride = 4 if stage.index == 0 else 2
        padding = 0
        if self.conv_embed:
            kernel_size, padding = (7, 2) if stage.index == 0 else (3, 1)
        return ConvEmbed(
            stage.in_channels,
            stage.embed_dims,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
        )
