"""FLatten-Swin and Swin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from mmflatten.models.attention import Windowed
from mmflatten.models.backbones.arch import BlockPlan, StagePlan, check_side
from mmflatten.models.backbones.letters import FOCUSED, SOFTMAX
from mmflatten.models.backbones.pyramid import PyramidBackbone
from mmflatten.models.layers import ConvEmbed, ConvFeedForward, PatchMerging
from mmflatten.registry import MODELS

ARCHS = {
    'tiny': dict(embed_dims=96, depths=(2, 2, 6, 2), num_heads=(3, 6, 12, 24), mlp_ratio=4.0),
    'small': dict(embed_dims=96, depths=(2, 2, 18, 2), num_heads=(3, 6, 12, 24), mlp_ratio=4.0),
    'base': dict(embed_dims=128, depths=(2, 2, 18, 2), num_heads=(4, 8, 16, 32), mlp_ratio=4.0),
}


@MODELS.register_module()
class FLattenSwin(PyramidBackbone):
    """Swin Transformer with linear attention in some stages; 'SSSS' is Swin.

    Source: FLatten Transformer (ICCV 2023), Swin Transformer (ICCV 2021). Softmax blocks (`S`)
    attend within windows, which are shifted in every second block. As in Swin, a map is zero-padded
    to whole windows and the padding is attended to. Blocks of other letters attend to the whole
    map.

    Args:
        linear_window: window size of blocks that are not `S`; None for the whole map.
        softmax_window: window size of softmax blocks.
        shift: shift the windows of every second block.
        conv_ffn: as in `ViT`, in blocks that are not `S`.
        arch, img_size, attn_types, mixers: as in `Backbone`.
        linear_attention, qkv_bias, mask_padding, drop_path_rate: as in `Backbone`.
        kwargs: `out_indices`, `frozen_stages`, `with_cp` and `init_cfg` of `Backbone`.
    """

    archs = ARCHS
    default_mixers = dict(L=FOCUSED, S=dict(SOFTMAX, relative_position_bias=True))

    def __init__(
        self,
        arch: str | dict = 'tiny',
        *,
        attn_types: str | Sequence[str] = 'LLSS',
        linear_window: int | None = None,
        softmax_window: int = 7,
        mask_padding: bool = False,
        shift: bool = True,
        drop_path_rate: float = 0.1,
        mixers: dict | None = None,
        conv_ffn: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            arch, letters=attn_types, drop_path_rate=drop_path_rate, mixers=mixers, **kwargs
        )
        check_side('softmax_window', softmax_window)
        if linear_window is not None:
            check_side('linear_window', linear_window)
        self.softmax_window = softmax_window
        self.linear_window = linear_window
        self.mask_padding = mask_padding
        self.shift = shift
        self.conv_ffn = conv_ffn
        self.build()

    def make_mixer(self, stage: StagePlan, block: BlockPlan) -> Windowed:
        side = self.softmax_window if block.letter == 'S' else self.linear_window
        window = None
        if side is not None:
            # At most as large as the map in pre-training, as in the official code.
            side = min(side, *stage.grid)
            window = (side, side)
        return Windowed(
            self.build_letter(stage, block.letter, grid_size=window or stage.grid),
            window,
            shift=self.shift and block.index % 2 == 1,
            mask_padding=self.mask_padding,
        )

    def make_ffn(self, stage: StagePlan, block: BlockPlan) -> nn.Module:
        if self.conv_ffn and block.letter != 'S':
            return ConvFeedForward(
                stage.embed_dims, stage.hidden_dims, act_twice=True, residual=False
            )
        return super().make_ffn(stage, block)

    def make_embed(self, stage: StagePlan) -> nn.Module:
        if stage.index == 0:
            return ConvEmbed(stage.in_channels, stage.embed_dims, kernel_size=4, stride=4)
        return PatchMerging(stage.in_channels, stage.embed_dims)
