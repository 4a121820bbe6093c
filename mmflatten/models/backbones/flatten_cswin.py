"""FLatten-CSwin, and CSwin itself."""
from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from mmflatten.models.attention import CrossShapedAttention
from mmflatten.models.backbones.arch import drop_path_schedule, parse_attn_types, per_stage, resolve_arch, stage_grids
from mmflatten.models.backbones.pyramid import PyramidBackbone, Stage
from mmflatten.models.layers import ConvEmbed, FeedForward, pre_norm_block
from mmflatten.registry import MODELS

ARCHS = {
    'tiny': dict(embed_dims=64, depths=(2, 4, 18, 1), num_heads=(2, 4, 8, 16), mlp_ratio=4.),
    'small': dict(embed_dims=64, depths=(2, 4, 32, 2), num_heads=(2, 4, 8, 16), mlp_ratio=4.),
    'base': dict(embed_dims=96, depths=(3, 6, 29, 2), num_heads=(4, 8, 16, 32), mlp_ratio=4.),
}


@MODELS.register_module()
class FLattenCSwin(PyramidBackbone):
    """CSwin Transformer with linear attention in some of its stages.

    Source: FLatten Transformer (ICCV 2023), CSwin Transformer (CVPR 2022). All blocks add a depthwise convolution of
    the values, computed inside each stripe (LePE), linear ones their own besides. The last stage attends the whole
    map, and so does a stage whose map one stripe covers in pre-training, at any size of the image. The official
    linear attention fails with more than one stripe; here each stripe has its own sums. Classification normalises the
    last map; for dense tasks every returned map has a norm of its own, as in Swin, which is our choice.

    Args:
        arch: 'tiny', 'small', 'base', or a dict of `embed_dims` (of the first stage, doubled in each next one),
            `depths`, `num_heads` and, if wanted, `mlp_ratio`. The depths are FLatten's; CSwin's 'tiny' has
            (1, 2, 21, 1), its 'base' (2, 4, 32, 2).
        img_size: image size in pre-training, which positional tables have; any other works in `forward`.
        attn_types: a letter per stage, `L` linear or `S` softmax; 'LLMS4' makes the first 4 blocks of the third stage
            linear. 'SSSS' is CSwin.
        softmax_split: width of the stripes of softmax blocks, per stage; the last one stands for the whole map.
        linear_split: the same for linear blocks; None for the whole map in all stages.
        linear_attention: the mixer of linear blocks.
        qkv_bias: whether the projections to query, key and value have a bias.
        mask_padding: keep softmax stripes from attending zero padding.
        drop_path_rate: of the last block; grows linearly from 0.
        out_indices: stages whose maps are returned, normalised.
        frozen_stages: -1 trains everything; 0 freezes the patch embedding, `i` also the first `i` stages.
        with_cp: recompute activations in the backward pass.
    """

    def __init__(self, arch: str | dict = 'tiny', img_size: int | Sequence[int] = 224, attn_types: str = 'LLSS',
                 softmax_split: Sequence[int] = (1, 2, 7, 7), linear_split: Sequence[int] | None = None,
                 linear_attention: dict = dict(type='FocusedLinearAttention', focusing_factor=3, kernel_size=5),
                 qkv_bias: bool = True, mask_padding: bool = False, drop_path_rate: float = 0.2,
                 out_indices: Sequence[int] = (0, 1, 2, 3), frozen_stages: int = -1, with_cp: bool = False,
                 init_cfg: dict | list | None = None) -> None:
        settings = resolve_arch(arch, ARCHS, required=('embed_dims', 'depths', 'num_heads'))
        depths = settings['depths']
        dims = [settings['embed_dims'] * 2 ** i for i in range(len(depths))]
        grids = stage_grids(img_size, [4 * 2 ** i for i in range(len(depths))])
        letters = parse_attn_types(attn_types, depths)
        rates = drop_path_schedule(drop_path_rate, depths)
        # Padding would pollute the sums over all keys, so linear stripes never count it.
        kinds = {'L': dict(mixer=linear_attention, mask_padding=True),
                 'S': dict(mixer=dict(type='SoftmaxAttention'), mask_padding=mask_padding)}
        splits = {'L': _splits('linear_split', linear_split, len(depths)),
                  'S': _splits('softmax_split', softmax_split, len(depths))}

        stages = []
        for i, embed_dims in enumerate(dims):
            blocks = []
            for letter, rate in zip(letters[i], rates[i]):
                mixer = CrossShapedAttention(embed_dims, settings['num_heads'][i], grids[i], qkv_bias=qkv_bias,
                                             split=splits[letter][i], **kinds[letter])
                ffn = FeedForward(embed_dims, int(embed_dims * settings['mlp_ratio']))
                blocks.append(pre_norm_block(mixer, ffn, embed_dims, rate))
            embed = ConvEmbed(dims[i - 1], embed_dims, 3, 2, 1) if i else ConvEmbed(3, embed_dims, 7, 4, 2)
            stages.append(Stage(embed, blocks, with_cp=with_cp))
        super().__init__(stages, [nn.LayerNorm(d) for d in dims], out_indices, frozen_stages, init_cfg)


def _splits(name: str, splits: Sequence[int] | None, stages: int) -> list[int | None]:
    """The width of the stripes in each stage, None for the whole map."""
    if splits is None:
        return [None] * stages
    return [*per_stage(name, splits, stages)[:-1], None]
