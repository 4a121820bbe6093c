"""FLatten-Swin and Swin."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from mmflatten.models.attention import Windowed, build_mixer
from mmflatten.models.backbones.arch import check_side, resolve_arch, stage_plan
from mmflatten.models.backbones.letters import FOCUSED, SOFTMAX, letter_mixers, parse_attn_types
from mmflatten.models.backbones.pyramid import PyramidBackbone, Stage
from mmflatten.models.layers import (
    ConvEmbed,
    ConvFeedForward,
    FeedForward,
    PatchMerging,
    pre_norm_block,
)
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
        attend within windows,
    which are shifted in every second block. As in Swin, a map is zero-padded to whole windows and
    the padding is attended to. Blocks of other letters attend to the whole map.

    Args:
        linear_window: window size of blocks that are not `S`; None for the whole map.
        softmax_window: window size of softmax blocks.
        shift: shift the windows of every second block.
        conv_ffn: as in `ViT`, in blocks that are not `S`.
        arch, img_size, attn_types, mixers: as in `Backbone`.
        linear_attention, qkv_bias, mask_padding, drop_path_rate: as in `Backbone`.
        kwargs: `out_indices`, `frozen_stages`, `with_cp` and `init_cfg` of `Backbone`.
    """

    def __init__(
        self,
        arch: str | dict = 'tiny',
        img_size: int | Sequence[int] = 224,
        attn_types: str | Sequence[str] = 'LLSS',
        linear_window: int | None = None,
        softmax_window: int = 7,
        linear_attention: dict | None = None,
        qkv_bias: bool = True,
        mask_padding: bool = False,
        shift: bool = True,
        drop_path_rate: float = 0.1,
        mixers: dict | None = None,
        conv_ffn: bool = False,
        **kwargs,
    ) -> None:
        settings = resolve_arch(arch, ARCHS)
        for name, side in (('linear_window', linear_window), ('softmax_window', softmax_window)):
            if side is not None:
                check_side(name, side)
        mixers = letter_mixers(
            mixers, linear_attention, dict(L=FOCUSED, S=dict(SOFTMAX, relative_position_bias=True))
        )
        letters = parse_attn_types(attn_types, settings['depths'], mixers)
        plan = stage_plan(settings, img_size, letters, drop_path_rate)

        stages = []
        for i, stage in enumerate(plan):
            dims, blocks = stage.embed_dims, []
            for j, (letter, rate) in enumerate(stage.blocks):
                side = softmax_window if letter == 'S' else linear_window
                # At most as large as the map in pre-training, as in the official code.
                window = None if side is None else (min(side, *stage.grid),) * 2
                inner = build_mixer(
                    mixers[letter],
                    embed_dims=dims,
                    num_heads=stage.num_heads,
                    grid_size=window or stage.grid,
                    qkv_bias=qkv_bias,
                )
                mixer = Windowed(
                    inner, window, shift=shift and j % 2 == 1, mask_padding=mask_padding
                )
                ffn = (
                    ConvFeedForward(dims, stage.hidden_dims, act_twice=True, residual=False)
                    if conv_ffn and letter != 'S'
                    else FeedForward(dims, stage.hidden_dims)
                )
                blocks.append(pre_norm_block(mixer, ffn, dims, rate))
            embed = PatchMerging(stage.in_channels, dims) if i else ConvEmbed(3, dims, 4, 4)
            stages.append(Stage(embed, blocks))
        super().__init__(stages, [nn.LayerNorm(stage.embed_dims) for stage in plan], **kwargs)
