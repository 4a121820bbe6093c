"""FLatten-PVT, FLatten-PVTv2, PVT and PVTv2."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from torch import nn

from mmflatten.models.attention import build_mixer
from mmflatten.models.backbones.arch import per_stage, resolve_arch, stage_plan
from mmflatten.models.backbones.base import DEFAULT_INIT, Backbone
from mmflatten.models.backbones.letters import FOCUSED, SOFTMAX, letter_mixers, parse_attn_types
from mmflatten.models.backbones.pyramid import ClassTokenStage, PyramidBackbone, Stage
from mmflatten.models.layers import ConvEmbed, FeedForward, GridTable, TokenConv, pre_norm_block
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
_BLOCK_EPS = 1e-6
# Kernel size, stride and padding of the embeddings of the first stage and of the others, by
# version.
_PATCHES = {1: ((4, 4, 0), (2, 2, 0)), 2: ((7, 4, 3), (3, 2, 1))}


@MODELS.register_module()
class FLattenPVT(PyramidBackbone):
    """Pyramid Vision Transformer with linear attention in some stages; 'SSSS' is PVT.

    Source: FLatten Transformer (ICCV 2023), Pyramid Vision Transformer (ICCV 2021). Maps are
        returned without norm:
    the official FLatten model has a norm after the last stage but never calls it. PVT's classifier
    uses a class token, which dense tasks omit; they load the classifier's weights without the
    token.

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
    version = 1
    droppable_weights = (*Backbone.droppable_weights, r'stages\.\d\.(embed\.cls_token|norm\..*)')

    def __init__(
        self,
        arch: str | dict = 'tiny',
        img_size: int | Sequence[int] = 224,
        attn_types: str | Sequence[str] = 'LLLL',
        linear_sr_ratios: Sequence[int] = (1, 1, 1, 1),
        sr_ratios: Sequence[int] = (8, 4, 2, 1),
        linear_attention: dict | None = None,
        qkv_bias: bool = True,
        drop_path_rate: float = 0.1,
        mixers: dict | None = None,
        with_cls_token: bool = False,
        **kwargs,
    ) -> None:
        settings = resolve_arch(arch, self.archs)
        for name, ratios in (('linear_sr_ratios', linear_sr_ratios), ('sr_ratios', sr_ratios)):
            per_stage(name, ratios, len(settings['depths']))
        mixers = letter_mixers(mixers, linear_attention, dict(L=FOCUSED, S=SOFTMAX))
        letters = parse_attn_types(attn_types, settings['depths'], mixers)

        stages: list[Stage] = []
        for i, stage in enumerate(stage_plan(settings, img_size, letters, drop_path_rate)):
            dims, blocks = stage.embed_dims, []
            for letter, rate in stage.blocks:
                ratio = (sr_ratios if letter == 'S' else linear_sr_ratios)[i]
                grid = (ceil(stage.grid[0] / ratio), ceil(stage.grid[1] / ratio))
                mixer = build_mixer(
                    mixers[letter],
                    embed_dims=dims,
                    num_heads=stage.num_heads,
                    grid_size=grid,
                    qkv_bias=qkv_bias,
                    sr_ratio=ratio,
                )
                inner = TokenConv(stage.hidden_dims, 3, gelu=True) if self.version == 2 else None
                ffn = FeedForward(dims, stage.hidden_dims, inner)
                blocks.append(pre_norm_block(mixer, ffn, dims, rate, _BLOCK_EPS))
            token = with_cls_token and i == len(letters) - 1
            kernel_stride_padding = _PATCHES[self.version][min(i, 1)]
            embed = ConvEmbed(stage.in_channels, dims, *kernel_stride_padding, class_token=token)
            norm = nn.LayerNorm(dims, _BLOCK_EPS) if token or self.version == 2 else None
            position = (
                GridTable(dims, stage.grid, int(token), std=0.02) if self.version == 1 else None
            )
            stages.append((ClassTokenStage if token else Stage)(embed, blocks, norm, position))
        super().__init__(stages, None, **kwargs)


@MODELS.register_module()
class FLattenPVTv2(FLattenPVT):
    """PVTv2 with linear attention in some stages; 'SSSS' is PVTv2.

    Source: FLatten Transformer (ICCV 2023), PVT v2 (2022). Differences from `FLattenPVT`:
        overlapping embeddings, a
    depthwise convolution in the feed-forward networks instead of positional tables, and a norm at
    the end of each stage, before both the returned map and the next stage.

    Args:
        arch: 'b0' to 'b5', or a dict as in `FLattenPVT`.
        kwargs: as in `FLattenPVT`.
    """

    archs = V2_ARCHS
    version = 2

    def __init__(self, arch: str | dict = 'b0', **kwargs) -> None:
        super().__init__(arch, **kwargs)

    def init_weights(self) -> None:
        was_initialized = self.is_init  # MMEngine initialises only once
        super().init_weights()
        if was_initialized or self.init_cfg != DEFAULT_INIT:
            return
        for conv in self.modules():
            if isinstance(conv, nn.Conv2d):
                fan_out = (
                    conv.kernel_size[0] * conv.kernel_size[1] * conv.out_channels // conv.groups
                )
                nn.init.normal_(conv.weight, std=(2 / fan_out) ** 0.5)
                if conv.bias is not None:
                    nn.init.zeros_(conv.bias)
