"""FLatten-Swin, and Swin itself."""
from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import nn

from mmflatten.models.attention import SoftmaxAttention, Windowed, build_mixer
from mmflatten.models.backbones.arch import check_side, drop_path_schedule, parse_attn_types, resolve_arch, stage_grids
from mmflatten.models.backbones.pyramid import PyramidBackbone, Stage
from mmflatten.models.layers import Block, ConvEmbed, FeedForward, PatchMerging, Residual
from mmflatten.registry import MODELS

ARCHS = {
    'tiny': dict(embed_dims=96, depths=(2, 2, 6, 2), num_heads=(3, 6, 12, 24), mlp_ratio=4.),
    'small': dict(embed_dims=96, depths=(2, 2, 18, 2), num_heads=(3, 6, 12, 24), mlp_ratio=4.),
    'base': dict(embed_dims=128, depths=(2, 2, 18, 2), num_heads=(4, 8, 16, 32), mlp_ratio=4.),
}


@MODELS.register_module()
class FLattenSwin(PyramidBackbone):
    """Swin Transformer with linear attention in some of its stages.

    Source: FLatten Transformer (ICCV 2023), Swin Transformer (ICCV 2021). A linear block attends the whole map; a
    softmax block works in windows, every second one shifted, which attend the zero padding of a map that does not fit
    them, as Swin's do.

    Args:
        arch: 'tiny', 'small', 'base', or a dict of `embed_dims` (of the first stage, doubled in each next one),
            `depths`, `num_heads` and, if wanted, `mlp_ratio`.
        img_size: image size in pre-training, which positional tables have; any other works in `forward`.
        attn_types: a letter per stage, `L` linear or `S` softmax; 'LLMS4' makes the first 4 blocks of the third stage
            linear. 'SSSS' is Swin.
        linear_window: side of the windows of linear blocks; None for the whole map.
        softmax_window: side of the windows of softmax blocks.
        linear_attention: the mixer of linear blocks.
        qkv_bias: whether the projections to query, key and value have a bias.
        mask_padding: keep softmax windows from attending zero padding.
        shift: shift the windows of every second block.
        drop_path_rate: of the last block; grows linearly from 0.
        out_indices: stages whose maps are returned, normalised.
        frozen_stages: -1 trains everything; 0 freezes the patch embedding, `i` also the first `i` stages.
        with_cp: recompute activations in the backward pass.
    """

    def __init__(self, arch: str | dict = 'tiny', img_size: int | Sequence[int] = 224, attn_types: str = 'LLSS',
                 linear_window: int | None = None, softmax_window: int = 7,
                 linear_attention: dict = dict(type='FocusedLinearAttention', focusing_factor=3, kernel_size=5),
                 qkv_bias: bool = True, mask_padding: bool = False, shift: bool = True, drop_path_rate: float = 0.1,
                 out_indices: Sequence[int] = (0, 1, 2, 3), frozen_stages: int = -1, with_cp: bool = False,
                 init_cfg: dict | list | None = None) -> None:
        settings = resolve_arch(arch, ARCHS, required=('embed_dims', 'depths', 'num_heads'))
        depths = settings['depths']
        dims = [settings['embed_dims'] * 2 ** i for i in range(len(depths))]
        grids = stage_grids(img_size, [4 * 2 ** i for i in range(len(depths))])
        for name, window in (('linear_window', linear_window), ('softmax_window', softmax_window)):
            if window is not None:
                check_side(name, window)
        letters = parse_attn_types(attn_types, depths)
        rates = drop_path_schedule(drop_path_rate, depths)

        stages = []
        for i, embed_dims in enumerate(dims):
            shared = dict(embed_dims=embed_dims, num_heads=settings['num_heads'][i], qkv_bias=qkv_bias)
            mixers = {'L': partial(_linear_mixer, linear_attention, linear_window, grids[i], shared),
                      'S': partial(_softmax_mixer, softmax_window, mask_padding, grids[i], shared)}
            blocks = [self._block(mixers[letter](shift=shift and j % 2 == 1), embed_dims, settings['mlp_ratio'], rate)
                      for j, (letter, rate) in enumerate(zip(letters[i], rates[i]))]
            embed = ConvEmbed(3, embed_dims, 4, 4) if i == 0 else PatchMerging(dims[i - 1], embed_dims)
            stages.append(Stage(embed, blocks, with_cp=with_cp))
        super().__init__(stages, [nn.LayerNorm(d) for d in dims], out_indices, frozen_stages, init_cfg)

    @staticmethod
    def _block(mixer: nn.Module, embed_dims: int, mlp_ratio: float, drop_path: float) -> Block:
        ffn = FeedForward(embed_dims, int(embed_dims * mlp_ratio))
        return Block(attn=Residual(mixer, nn.LayerNorm(embed_dims), drop_path),
                     ffn=Residual(ffn, nn.LayerNorm(embed_dims), drop_path))


def _fit(window: int, grid: tuple[int, int]) -> tuple[int, int]:
    """The window of a stage: a square no larger than its map in pre-training, as in the official code."""
    side = min(window, *grid)
    return side, side


def _linear_mixer(cfg: dict, window: int | None, grid: tuple[int, int], shared: dict, shift: bool) -> nn.Module:
    window_size = None if window is None else _fit(window, grid)
    mixer = build_mixer(cfg, grid_size=window_size or grid, **shared)
    # The official windows shift without a mask; padding would pollute the sums over all keys.
    return Windowed(mixer, window_size, shift=shift, mask_shift=False, mask_padding=True)


def _softmax_mixer(window: int, mask_padding: bool, grid: tuple[int, int], shared: dict, shift: bool) -> nn.Module:
    window_size = _fit(window, grid)
    mixer = SoftmaxAttention(grid_size=window_size, relative_position_bias=True, **shared)
    return Windowed(mixer, window_size, shift=shift, mask_padding=mask_padding)
