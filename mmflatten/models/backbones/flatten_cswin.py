"""FLatten-CSwin and CSwin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mmflatten.models.attention import CrossShapedAttention
from mmflatten.models.backbones.arch import BlockPlan, StagePlan, per_stage
from mmflatten.models.backbones.letters import FOCUSED, SOFTMAX
from mmflatten.models.backbones.pyramid import PyramidBackbone
from mmflatten.models.layers import ConvEmbed
from mmflatten.registry import MODELS

ARCHS = {
    'tiny': dict(embed_dims=64, depths=(2, 4, 18, 1), num_heads=(2, 4, 8, 16), mlp_ratio=4.0),
    'small': dict(embed_dims=64, depths=(2, 4, 32, 2), num_heads=(2, 4, 8, 16), mlp_ratio=4.0),
    'base': dict(embed_dims=96, depths=(3, 6, 29, 2), num_heads=(4, 8, 16, 32), mlp_ratio=4.0),
}


@MODELS.register_module()
class FLattenCSwin(PyramidBackbone):
    """CSwin Transformer with linear attention in some stages; 'SSSS' is CSwin.

    Source: FLatten Transformer (ICCV 2023), CSwin Transformer (CVPR 2022). All blocks add a
    depthwise convolution of the values within each stripe (LePE); linear blocks also have that of
    focused attention. The last stage attends to the whole map, and so does any stage whose map is
    covered by one stripe in pre-training, for all image sizes. The official linear attention fails
    with more than one stripe; here each stripe is summed separately. Classification normalises the
    last map. For dense tasks each returned map has a separate norm as in Swin, which is our choice.
    The named depths are FLatten's. CSwin's 'tiny' has (1, 2, 21, 1) and its 'base' (2, 4, 32, 2).

    Args:
        softmax_split: stripe width of softmax blocks, per stage. The last stage always attends to
            the whole map.
        linear_split: the same for blocks of other letters; None for the whole map in all stages.
        arch, img_size, attn_types, mixers: as in `Backbone`.
        linear_attention, qkv_bias, mask_padding, drop_path_rate: as in `Backbone`.
        kwargs: `out_indices`, `frozen_stages`, `with_cp` and `init_cfg` of `Backbone`.
    """

    archs = ARCHS
    default_mixers = dict(L=FOCUSED, S=SOFTMAX)

    def __init__(
        self,
        arch: str | dict = 'tiny',
        *,
        attn_types: str | Sequence[str] = 'LLSS',
        softmax_split: Sequence[int] = (1, 2, 7, 7),
        linear_split: Sequence[int] | None = None,
        mask_padding: bool = False,
        drop_path_rate: float = 0.2,
        mixers: dict | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            arch, letters=attn_types, drop_path_rate=drop_path_rate, mixers=mixers, **kwargs
        )
        self.softmax_split = per_stage('softmax_split', softmax_split, self.num_stages)
        self.linear_split = None
        if linear_split is not None:
            self.linear_split = per_stage('linear_split', linear_split, self.num_stages)
        self.mask_padding = mask_padding
        self.build()

    def make_mixer(self, stage: StagePlan, block: BlockPlan) -> CrossShapedAttention:
        splits = self.softmax_split if block.letter == 'S' else self.linear_split
        # None stands for the whole map, to which the last stage always attends.
        split = None if splits is None or stage.is_last else splits[stage.index]
        return CrossShapedAttention(
            stage.embed_dims,
            stage.num_heads,
            stage.grid,
            mixer=self.mixers[block.letter],
            qkv_bias=self.qkv_bias,
            split=split,
            mask_padding=self.mask_padding,
        )

    def make_embed(self, stage: StagePlan) -> ConvEmbed:
        if stage.index == 0:
            return ConvEmbed(
                stage.in_channels, stage.embed_dims, kernel_size=7, stride=4, padding=2
            )
        return ConvEmbed(stage.in_channels, stage.embed_dims, kernel_size=3, stride=2, padding=1)
