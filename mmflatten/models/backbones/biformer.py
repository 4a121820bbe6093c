"""BiFormer-STL, the ablation model of BiFormer with the layout of Swin-T."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from mmflatten.models.attention import build_mixer
from mmflatten.models.backbones.arch import resolve_arch, stage_plan
from mmflatten.models.backbones.letters import letter_mixers, parse_attn_types
from mmflatten.models.backbones.pyramid import PyramidBackbone, Stage
from mmflatten.models.layers import ConvStack, FeedForward, TokenBatchNorm, pre_norm_block
from mmflatten.registry import MODELS

ARCHS = {'tiny': dict(embed_dims=96, depths=(2, 2, 6, 2), num_heads=(3, 6, 12, 24), mlp_ratio=4.0)}
# A region of the map attends to 1, 4 and 16 of 7 x 7 regions in the first three stages, to all
# tokens in the last.
MIXERS = {
    **{
        letter: dict(type='BiLevelRoutingAttention', topk=topk)
        for letter, topk in zip('ABC', (1, 4, 16))
    },
    'S': dict(type='SoftmaxAttention', num_heads=8, qkv_bias=False, input_kernel=5),
}


@MODELS.register_module()
class BiFormerSTL(PyramidBackbone):
    """Swin-T's layout with bi-level routing attention, and batch norms between the stages.

    Source: the released code of BiFormer (Zhu et al., CVPR 2023). Batch norms follow the 4 x 4
        convolution of the stem,
    precede the 2 x 2 convolutions of downsampling and are the norms of the returned maps. The last
    stage has 8 heads.

    Args:
        arch: 'tiny', or a dict as in `Backbone`.
        attn_types, mixers, linear_attention: as in `Backbone`; 'A', 'B' and 'C' route to 1, 4 and
            16 regions.
        img_size, qkv_bias, drop_path_rate: as in `Backbone`.
        kwargs: `out_indices`, `frozen_stages`, `with_cp` and `init_cfg` of `Backbone`.
    """

    def __init__(
        self,
        arch: str | dict = 'tiny',
        img_size: int | Sequence[int] = 224,
        attn_types: str | Sequence[str] = 'ABCS',
        linear_attention: dict | None = None,
        qkv_bias: bool = True,
        drop_path_rate: float = 0.2,
        mixers: dict | None = None,
        **kwargs,
    ) -> None:
        settings = resolve_arch(arch, ARCHS)
        mixers = letter_mixers(mixers, linear_attention, MIXERS)
        plan = stage_plan(
            settings,
            img_size,
            parse_attn_types(attn_types, settings['depths'], mixers),
            drop_path_rate,
        )
        stages: list[Stage] = []
        for stage in plan:
            dims = stage.embed_dims
            blocks = [
                pre_norm_block(
                    build_mixer(
                        mixers[letter],
                        embed_dims=dims,
                        num_heads=stage.num_heads,
                        grid_size=stage.grid,
                        qkv_bias=qkv_bias,
                    ),
                    FeedForward(dims, stage.hidden_dims),
                    dims,
                    rate,
                    eps=1e-6,
                )
                for letter, rate in stage.blocks
            ]
            embed = (
                ConvStack(
                    [nn.BatchNorm2d(stage.in_channels), nn.Conv2d(stage.in_channels, dims, 2, 2)],
                    dims,
                    2,
                )
                if stages
                else ConvStack([nn.Conv2d(3, dims, 4, 4), nn.BatchNorm2d(dims)], dims, 4)
            )
            stages.append(Stage(embed, blocks))
        super().__init__(stages, [TokenBatchNorm(stage.embed_dims) for stage in plan], **kwargs)
