"""FLatten-CSwin and CSwin."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from mmflatten.models.attention import CrossShapedAttention
from mmflatten.models.backbones.arch import per_stage, resolve_arch, stage_plan
from mmflatten.models.backbones.letters import FOCUSED, SOFTMAX, letter_mixers, parse_attn_types
from mmflatten.models.backbones.pyramid import PyramidBackbone, Stage
from mmflatten.models.layers import ConvEmbed, FeedForward, pre_norm_block
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
        depthwise convolution of
    the values within each stripe (LePE); linear blocks also have that of focused attention. The
    last stage attends to the whole map, and so does any stage whose map is covered by one stripe in
    pre-training, for all image sizes. The official linear attention fails with more than one
    stripe; here each stripe is summed separately. Classification normalises the last map. For dense
    tasks each returned map has a separate norm as in Swin, which is our choice. The named depths
    are FLatten's. CSwin's 'tiny' has (1, 2, 21, 1) and its 'base' (2, 4, 32, 2).

    Args:
        softmax_split: stripe width of softmax blocks, per stage. The last stage always attends to
            the whole map.
        linear_split: the same for blocks of other letters; None for the whole map in all stages.
        arch, img_size, attn_types, mixers: as in `Backbone`.
        linear_attention, qkv_bias, mask_padding, drop_path_rate: as in `Backbone`.
        kwargs: `out_indices`, `frozen_stages`, `with_cp` and `init_cfg` of `Backbone`.
    """

    def __init__(
        self,
        arch: str | dict = 'tiny',
        img_size: int | Sequence[int] = 224,
        attn_types: str | Sequence[str] = 'LLSS',
        softmax_split: Sequence[int] = (1, 2, 7, 7),
        linear_split: Sequence[int] | None = None,
        linear_attention: dict | None = None,
        qkv_bias: bool = True,
        mask_padding: bool = False,
        drop_path_rate: float = 0.2,
        mixers: dict | None = None,
        **kwargs,
    ) -> None:
        settings = resolve_arch(arch, ARCHS)
        mixers = letter_mixers(mixers, linear_attention, dict(L=FOCUSED, S=SOFTMAX))
        letters = parse_attn_types(attn_types, settings['depths'], mixers)
        plan = stage_plan(settings, img_size, letters, drop_path_rate)
        linear_splits = _splits('linear_split', linear_split, len(plan))
        softmax_splits = _splits('softmax_split', softmax_split, len(plan))

        stages = []
        for i, stage in enumerate(plan):
            dims, blocks = stage.embed_dims, []
            for letter, rate in stage.blocks:
                split = (softmax_splits if letter == 'S' else linear_splits)[i]
                mixer = CrossShapedAttention(
                    dims,
                    stage.num_heads,
                    stage.grid,
                    mixer=mixers[letter],
                    qkv_bias=qkv_bias,
                    split=split,
                    mask_padding=mask_padding,
                )
                blocks.append(
                    pre_norm_block(mixer, FeedForward(dims, stage.hidden_dims), dims, rate)
                )
            embed = (
                ConvEmbed(stage.in_channels, dims, 3, 2, 1) if i else ConvEmbed(3, dims, 7, 4, 2)
            )
            stages.append(Stage(embed, blocks))
        super().__init__(stages, [nn.LayerNorm(stage.embed_dims) for stage in plan], **kwargs)


def _splits(name: str, splits: Sequence[int] | None, stages: int) -> list[int | None]:
    """Return the stripe width of each stage, None for the whole map."""
    if splits is None:
        return [None] * stages
    return [*per_stage(name, splits, stages)[:-1], None]
