"""FLatten-DeiT, and DeiT itself."""
from __future__ import annotations

from collections.abc import Sequence

from mmflatten.models.attention import build_mixer
from mmflatten.models.backbones.arch import check_side, drop_path_schedule, resolve_arch, stage_grids
from mmflatten.models.backbones.plain import ClassTokenEmbed, PlainBackbone
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
    """DeiT with linear attention in some of its blocks.

    Source: FLatten Transformer (ICCV 2023), DeiT (ICML 2021). There is no official code. As in the other DeiTs of the
    same laboratory, class token and position embedding stay, and the class token takes part in the attention of every
    block; the positional encoding of the keys and the depthwise convolution of the values, which are terms of the
    map, leave it out. So the convolution of the last block does not act on the class token's result, and is trained
    by feature maps alone.

    Args:
        arch: 'tiny', 'small', 'base', or a dict of `embed_dims`, `depth`, `num_heads` and, if wanted, `mlp_ratio`.
        img_size: image size in pre-training, which positional tables have; any other works in `forward`.
        patch_size: side of a patch.
        attn_types: `L` linear or `S` softmax, one letter for all blocks or one per block. 'S' is DeiT.
        linear_attention: the mixer of linear blocks.
        qkv_bias: whether the projections to query, key and value have a bias.
        out_type: 'cls_token' returns `(B, C)` per output, for a classifier without a neck; 'featmap' returns maps
            `(B, C, H / patch, W / patch)` for dense tasks.
        drop_path_rate: of the last block; grows linearly from 0.
        out_indices: blocks whose results are returned, each through a norm of its own; None for the last one. Dense
            tasks use four, such as (2, 5, 8, 11).
        frozen_stages: -1 trains everything; 0 freezes the embedding with class token and positions, `i` also the
            first `i` blocks.
        with_cp: recompute activations in the backward pass.
    """

    def __init__(self, arch: str | dict = 'tiny', img_size: int | Sequence[int] = 224, patch_size: int = 16,
                 attn_types: str = 'L',
                 linear_attention: dict = dict(type='FocusedLinearAttention', focusing_factor=3, kernel_size=5),
                 qkv_bias: bool = True, out_type: str = 'cls_token', drop_path_rate: float = 0.1,
                 out_indices: Sequence[int] | None = None, frozen_stages: int = -1, with_cp: bool = False,
                 init_cfg: dict | list | None = None) -> None:
        settings = resolve_arch(arch, ARCHS, required=('embed_dims', 'depth', 'num_heads'))
        embed_dims, depth = settings['embed_dims'], settings['depth']
        check_side('patch_size', patch_size)
        grid_size, = stage_grids(img_size, [patch_size])
        rates, = drop_path_schedule(drop_path_rate, [depth])
        kinds = {'L': linear_attention, 'S': dict(type='SoftmaxAttention')}
        blocks = []
        for letter, rate in zip(_letters(attn_types, depth), rates):
            mixer = build_mixer(kinds[letter], embed_dims=embed_dims, num_heads=settings['num_heads'],
                                grid_size=grid_size, qkv_bias=qkv_bias)
            ffn = FeedForward(embed_dims, int(embed_dims * settings['mlp_ratio']))
            blocks.append(pre_norm_block(mixer, ffn, embed_dims, rate, _EPS))
        super().__init__(ClassTokenEmbed(embed_dims, patch_size, grid_size), blocks, out_type, out_indices,
                         frozen_stages, _EPS, with_cp, init_cfg)


def _letters(attn_types: str, depth: int) -> str:
    """A letter per block."""
    letters = attn_types * depth if isinstance(attn_types, str) and len(attn_types) == 1 else attn_types
    if not isinstance(letters, str) or len(letters) != depth or set(letters) - set('LS'):
        raise ValueError(f'attn_types ({attn_types!r}) must be one letter, L or S, or one for each of the {depth} '
                         'blocks')
    return letters
