"""FLatten-PVT and FLatten-PVTv2, and PVT and PVTv2 themselves."""
from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from torch import nn

from mmflatten.models.attention import build_mixer
from mmflatten.models.backbones.arch import drop_path_schedule, parse_attn_types, per_stage, resolve_arch, stage_grids
from mmflatten.models.backbones.base import DEFAULT_INIT
from mmflatten.models.backbones.pyramid import PyramidBackbone, Stage
from mmflatten.models.layers import ConvEmbed, FeedForward, GridTable, TokenConv, pre_norm_block
from mmflatten.registry import MODELS

_WIDE = dict(embed_dims=(64, 128, 320, 512), num_heads=(1, 2, 5, 8), mlp_ratios=(8., 8., 4., 4.))
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
    'b5': dict(_WIDE, depths=(3, 6, 40, 3), mlp_ratios=(4., 4., 4., 4.)),
}
_BLOCK_EPS = 1e-6


@MODELS.register_module()
class FLattenPVT(PyramidBackbone):
    """Pyramid Vision Transformer with linear attention in some of its stages.

    Source: FLatten Transformer (ICCV 2023), Pyramid Vision Transformer (ICCV 2021). The maps are those of the blocks:
    the official model has a norm behind the last stage, but never calls it.

    Args:
        arch: 'tiny', 'small', 'medium', 'large', or a dict of `embed_dims`, `depths`, `num_heads` and, if wanted,
            `mlp_ratios`, each with a number per stage.
        img_size: image size in pre-training, which positional tables have; any other works in `forward`.
        attn_types: a letter per stage, `L` linear or `S` softmax; 'LLMS4' makes the first 4 blocks of the third stage
            linear. 'SSSS' is PVT.
        linear_sr_ratios: in linear blocks, per stage, how many times smaller the map of keys and values is on a side.
        sr_ratios: the same for softmax blocks.
        linear_attention: the mixer of linear blocks.
        qkv_bias: whether the projections to query, key and value have a bias.
        drop_path_rate: of the last block; grows linearly from 0.
        out_indices: stages whose maps are returned.
        frozen_stages: -1 trains everything; 0 freezes the patch embedding, `i` also the first `i` stages.
        with_cp: recompute activations in the backward pass.
    """

    archs = ARCHS

    def __init__(self, arch: str | dict = 'tiny', img_size: int | Sequence[int] = 224, attn_types: str = 'LLLL',
                 linear_sr_ratios: Sequence[int] = (1, 1, 1, 1), sr_ratios: Sequence[int] = (8, 4, 2, 1),
                 linear_attention: dict = dict(type='FocusedLinearAttention', focusing_factor=3, kernel_size=5),
                 qkv_bias: bool = True, drop_path_rate: float = 0.1, out_indices: Sequence[int] = (0, 1, 2, 3),
                 frozen_stages: int = -1, with_cp: bool = False, init_cfg: dict | list | None = None) -> None:
        settings = resolve_arch(arch, self.archs, required=('embed_dims', 'depths', 'num_heads'))
        dims, depths = settings['embed_dims'], settings['depths']
        for name, ratios in (('linear_sr_ratios', linear_sr_ratios), ('sr_ratios', sr_ratios)):
            per_stage(name, ratios, len(depths))
        letters = parse_attn_types(attn_types, depths)
        kinds = {'L': (linear_attention, linear_sr_ratios), 'S': (dict(type='SoftmaxAttention'), sr_ratios)}
        rates = drop_path_schedule(drop_path_rate, depths)
        grids = stage_grids(img_size, [4 * 2 ** i for i in range(len(depths))])

        stages = []
        for i, (embed_dims, grid) in enumerate(zip(dims, grids)):
            blocks = []
            for letter, rate in zip(letters[i], rates[i]):
                cfg, ratios = kinds[letter]
                mixer = build_mixer(cfg, embed_dims=embed_dims, num_heads=settings['num_heads'][i], qkv_bias=qkv_bias,
                                    sr_ratio=ratios[i], grid_size=tuple(ceil(side / ratios[i]) for side in grid))
                ffn = self._feed_forward(embed_dims, int(embed_dims * settings['mlp_ratios'][i]))
                blocks.append(pre_norm_block(mixer, ffn, embed_dims, rate, _BLOCK_EPS))
            embed = self._embed(dims[i - 1] if i else 3, embed_dims, first=i == 0)
            stages.append(Stage(embed, blocks, self._norm(embed_dims), self._position(embed_dims, grid), with_cp))
        super().__init__(stages, None, out_indices, frozen_stages, init_cfg)

    @staticmethod
    def _embed(in_channels: int, embed_dims: int, first: bool) -> ConvEmbed:
        patch = 4 if first else 2
        return ConvEmbed(in_channels, embed_dims, patch, patch)

    @staticmethod
    def _position(embed_dims: int, grid: tuple[int, int]) -> nn.Module | None:
        return GridTable(embed_dims, grid, std=.02)

    @staticmethod
    def _feed_forward(embed_dims: int, hidden_dims: int) -> FeedForward:
        return FeedForward(embed_dims, hidden_dims)

    @staticmethod
    def _norm(embed_dims: int) -> nn.Module | None:
        return None


@MODELS.register_module()
class FLattenPVTv2(FLattenPVT):
    """PVTv2 with linear attention in some of its stages; 'SSSS' is PVTv2.

    Source: FLatten Transformer (ICCV 2023), PVT v2 (2022). It differs from `FLattenPVT` by overlapping embeddings, a
    depthwise convolution in the feed-forward networks in place of positional tables, and a norm at the end of each
    stage, which both the returned map and the next stage see.

    Args:
        arch: 'b0' to 'b5', or a dict as in `FLattenPVT`.
        kwargs: as in `FLattenPVT`.
    """

    archs = V2_ARCHS

    def __init__(self, arch: str | dict = 'b0', **kwargs) -> None:
        super().__init__(arch, **kwargs)

    def init_weights(self) -> None:
        super().init_weights()
        if self.init_cfg != DEFAULT_INIT:
            return
        for conv in self.modules():
            if isinstance(conv, nn.Conv2d):
                fan_out = conv.kernel_size[0] * conv.kernel_size[1] * conv.out_channels // conv.groups
                nn.init.normal_(conv.weight, std=(2 / fan_out) ** .5)
                if conv.bias is not None:
                    nn.init.zeros_(conv.bias)

    @staticmethod
    def _embed(in_channels: int, embed_dims: int, first: bool) -> ConvEmbed:
        return ConvEmbed(in_channels, embed_dims, 7, 4, 3) if first else ConvEmbed(in_channels, embed_dims, 3, 2, 1)

    @staticmethod
    def _position(embed_dims: int, grid: tuple[int, int]) -> None:
        return None

    @staticmethod
    def _feed_forward(embed_dims: int, hidden_dims: int) -> FeedForward:
        return FeedForward(embed_dims, hidden_dims, inner=TokenConv(hidden_dims, 3))

    @staticmethod
    def _norm(embed_dims: int) -> nn.Module:
        return nn.LayerNorm(embed_dims, _BLOCK_EPS)
