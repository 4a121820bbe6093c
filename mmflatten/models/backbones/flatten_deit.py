"""FLatten-DeiT and DeiT."""
from __future__ import annotations

from collections.abc import Sequence

from mmflatten.models.attention import build_mixer
from mmflatten.models.backbones.arch import check_side, resolve_arch, stage_plan
from mmflatten.models.backbones.letters import FOCUSED, SOFTMAX, block_letters, check_letters, letter_mixers
from mmflatten.models.backbones.plain import PlainBackbone, PlainEmbed
from mmflatten.models.layers import FeedForward, pre_norm_block
from mmflatten.registry import MODELS

ARCHS = {
    'tiny': dict(embed_dims=192, depth=12, num_heads=3, mlp_ratio=4.),
    'small': dict(embed_dims=384, depth=12, num_heads=6, mlp_ratio=4.),
    'base': dict(embed_dims=768, depth=12, num_heads=12, mlp_ratio=4.),
}
_EPS = 1e-6


@MODELS.register_module()
class FLattenDeiT(PlainBackbone):
    """DeiT with linear attention in some blocks.

    Source: FLatten Transformer (ICCV 2023), DeiT (ICML 2021). There is no official code. As in other DeiTs by the same
    authors, the class token and positional embedding stay, and the class token takes part in the attention of every
    block. The positional encoding of the keys and the depthwise convolution of the values act only on the map. With
    `out_type='cls_token'` the convolution of the last block therefore does not affect the output and is not trained.

    Args:
        arch: 'tiny', 'small', 'base', or a dict of `embed_dims`, `depth`, `num_heads` and optionally `mlp_ratio`.
        patch_size: side of a patch.
        with_cls_token: False omits the class token. `out_type` must then be another, and a classifier averages the
            map before the norm ('avg_featmap') or after it ('featmap' with a `GlobalAveragePooling` neck).
        with_positions: False omits the learned positions.
        border: width in patches of a border of zeros on all sides of the image (1 in MHLA, for 16 x 16 patches at 224).
        cpe_kernel: kernel size of a depthwise convolution before each block (conditional positional encoding); 0 for
            none.
        attn_types: one letter for all blocks, or one per block; 'S' is DeiT.
        out_type: 'cls_token' returns `(B, C)` per output, for a classifier without neck, and so does 'avg_featmap',
            the mean of the map; 'featmap' returns maps `(B, C, H / patch, W / patch)` for dense tasks.
        out_indices: blocks whose outputs are returned, each with a separate norm; None for the last block. Dense tasks
            use four, such as (2, 5, 8, 11).
        frozen_stages: -1 trains everything, 0 freezes the embedding with class token and positions, `i` also freezes
            the first `i` blocks.
        img_size, mixers, linear_attention, qkv_bias, drop_path_rate, with_cp, init_cfg, progressive_norm: as in
            `Backbone`.
    """

    def __init__(self, arch: str | dict = 'tiny', img_size: int | Sequence[int] = 224, patch_size: int = 16,
                 attn_types: str = 'L', linear_attention: dict | None = None, qkv_bias: bool = True,
                 out_type: str = 'cls_token', drop_path_rate: float = 0.1, out_indices: Sequence[int] | None = None,
                 frozen_stages: int = -1, with_cp: bool = False, init_cfg: dict | list | None = None,
                 mixers: dict | None = None, with_cls_token: bool = True, with_positions: bool = True, border: int = 0,
                 cpe_kernel: int = 0, progressive_norm: int = 0) -> None:
        settings = resolve_arch(arch, ARCHS, required=('embed_dims', 'depth', 'num_heads'))
        check_side('patch_size', patch_size)
        if not isinstance(border, int) or border < 0:
            raise ValueError(f'border: expected a number of patches, 0 for none, got {border!r}.')
        mixers = letter_mixers(mixers, linear_attention, dict(L=FOCUSED, S=SOFTMAX))
        letters = block_letters(attn_types, attn_types, settings['depth'])
        check_letters('attn_types', attn_types, [letters], mixers)
        settings['num_heads'] = [settings['num_heads']]
        stage, = stage_plan(settings, img_size, [letters], drop_path_rate, stride=patch_size)
        grid = (stage.grid[0] + 2 * border, stage.grid[1] + 2 * border)
        blocks = []
        for letter, rate in stage.blocks:
            mixer = build_mixer(mixers[letter], embed_dims=stage.embed_dims, num_heads=stage.num_heads,
                                grid_size=grid, qkv_bias=qkv_bias)
            ffn = FeedForward(stage.embed_dims, stage.hidden_dims)
            blocks.append(pre_norm_block(mixer, ffn, stage.embed_dims, rate, _EPS, cpe_kernel))
        embed = PlainEmbed(stage.embed_dims, patch_size, grid, with_cls_token, with_positions, border)
        super().__init__(embed, blocks, out_type, out_indices,
                         frozen_stages, _EPS, with_cp, init_cfg, progressive_norm)
