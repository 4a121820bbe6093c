"""Plain vision transformers: ViT, DeiT, DeiT III, DINOv2, DINOv3 and a user's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from mmflatten.models.attention import TokenMixer
from mmflatten.models.backbones.arch import BlockPlan, StagePlan, check_side
from mmflatten.models.backbones.letters import FOCUSED, SOFTMAX
from mmflatten.models.backbones.plain import PlainBackbone, PlainEmbed
from mmflatten.models.layers import (
    Block,
    ConvFeedForward,
    FeedForward,
    NormalizedRotary,
    SwiGLU,
    pre_norm_block,
)
from mmflatten.registry import MODELS

_SIZES = {
    'tiny': dict(embed_dims=192, depth=12, num_heads=3),
    'small': dict(embed_dims=384, depth=12, num_heads=6),
    'small-plus': dict(embed_dims=384, depth=12, num_heads=6),
    'medium': dict(embed_dims=512, depth=12, num_heads=8),
    'base': dict(embed_dims=768, depth=12, num_heads=12),
    'large': dict(embed_dims=1024, depth=24, num_heads=16),
    'huge': dict(embed_dims=1280, depth=32, num_heads=16),
    'huge-plus': dict(embed_dims=1280, depth=32, num_heads=20),
    'giant': dict(embed_dims=1536, depth=40, num_heads=24),
    '7b': dict(embed_dims=4096, depth=40, num_heads=32),
}
# Properties of pre-trained weights besides their size, with the values of ViT.
_TRAITS = dict(
    mlp_ratio=4.0,
    patch_size=16,
    img_size=224,
    registers=0,
    layer_scale=0.0,
    swiglu=False,
    rotary=0.0,
    class_position=True,
    resize='bicubic-antialias',
    eps=1e-6,
    qkv_bias=True,
    key_bias=True,
)
_DEIT3 = dict(layer_scale=1e-6, class_position=False)
_DINOV2 = dict(patch_size=14, img_size=518, layer_scale=1e-5, resize='bicubic-offset')
_DINOV2_REGISTERS = dict(_DINOV2, registers=4, resize='bicubic-antialias')
_DINOV3 = dict(registers=4, layer_scale=1e-5, rotary=100.0, eps=1e-5, key_bias=False)


def _archs(
    prefix: str, traits: Mapping[str, Any], sizes: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict]:
    """Return the architectures of a family by name.

    Args:
        prefix: of the names.
        traits: traits of the whole family.
        sizes: traits of each size.
    """
    archs = {}
    for size, special in sizes.items():
        archs[prefix + size] = {**_SIZES[size], **_TRAITS, **traits, **special}
    return archs


_PATCH_14 = dict(patch_size=14)
_GATED = dict(swiglu=True)
_DINOV2_GIANT = dict(mlp_ratio=8 / 3, swiglu=True)
_DINOV3_7B = dict(mlp_ratio=2.0, swiglu=True, qkv_bias=False)
ARCHS = {
    **_archs('', {}, dict(tiny={}, small={}, base={}, large={}, huge=_PATCH_14)),
    **_archs('deit3-', _DEIT3, dict(small={}, medium={}, base={}, large={}, huge=_PATCH_14)),
    **_archs('dinov2-', _DINOV2, dict(small={}, base={}, large={}, giant=_DINOV2_GIANT)),
    **_archs(
        'dinov2-reg-', _DINOV2_REGISTERS, dict(small={}, base={}, large={}, giant=_DINOV2_GIANT)
    ),
    **_archs(
        'dinov3-',
        _DINOV3,
        {
            'small': {},
            'small-plus': _GATED,
            'base': {},
            'large': {},
            'huge-plus': _GATED,
            '7b': _DINOV3_7B,
        },
    ),
}
DINOV3_FILES = (
    'For files of DINOv3 accept its license at'
    ' ai.meta.com/resources/models-and-libraries/dinov3-downloads or huggingface.co/facebook, and'
    ' `mmflatten convert` them with --family auto.'
)


@MODELS.register_module()
class ViT(PlainBackbone):
    """Plain vision transformer, with softmax or other attention in each block.

    The architectures are those of ViT (ICLR 2021; DeiT has the same), DeiT III (ECCV 2022), DINOv2
    (2023) without and with registers, and DINOv3 (2025). With softmax attention they compute what
    the authors' codes compute.

    Another attention sees class token and registers as tokens like any other: they are keys,
    counted in its sums, and queries. Parts that need a map, convolutions and tables of positions,
    leave them out. DINOv3's rotary positions turn queries and keys before the attention applies its
    feature map: a linear attention computes `phi(R_i q_i)^T phi(R_j k_j)`, with denominators as
    positive as without. Class token and registers are not rotated.

    Args:
        arch: a name in `ARCHS`, such as 'base', 'deit3-base', 'dinov2-base', 'dinov2-reg-base' or
            'dinov3-base', or a dict of `embed_dims`, `depth`, `num_heads` and what differs from
            'tiny': `mlp_ratio`, `patch_size`, `img_size`, number of `registers`, initial
            `layer_scale` (0 for none), `swiglu`, base of the `rotary` periods (0 for a table of
            positions), `class_position` (a row for the class token), `resize` of the table (see
            `resize_grid`), `eps` of the norms, `qkv_bias`, `key_bias`.
        img_size: size in pre-training; None for that of the architecture.
        patch_size: side of a patch; None for that of the architecture.
        attn_types: one letter for all blocks, or one per block: 'S' softmax, 'L' focused linear
            attention, 'W' softmax in windows.
        window_size: side of the windows of `W` in patches. Each window has a copy of the prefix
            tokens, whose outputs are averaged over the windows. Rotary positions are computed per
            window.
        mask_padding: exclude the zero padding of windows from the keys of softmax attention. ViTDet
            includes it.
        with_cls_token: False leaves out class token and registers, as detectors do. Their weights
            in a checkpoint are then not used.
        output_norm: as in `PlainBackbone`.
        conv_ffn: 3 x 3 depthwise convolution and a second GELU inside the feed-forward networks
            (EfficientViT).
        with_positions, border, cpe_kernel, out_type, out_indices, frozen_stages: as in
            `FLattenDeiT`.
        mixers, linear_attention, qkv_bias, drop_path_rate, with_cp, init_cfg, progressive_norm: as
            in `Backbone`.
    """

    archs = ARCHS
    default_mixers = dict(L=FOCUSED, S=SOFTMAX, W=SOFTMAX)
    # DINOv3's files may contain a norm for crops, and may lack the rotary periods.
    droppable_weights = (*PlainBackbone.droppable_weights, r'local_cls_norm\..*')
    new_weights = (*PlainBackbone.new_weights, r'embed\.rotary\.periods')

    def __init__(
        self,
        arch: str | dict = 'base',
        *,
        img_size: int | Sequence[int] | None = None,
        attn_types: str = 'S',
        drop_path_rate: float = 0.0,
        mixers: dict | None = None,
        with_positions: bool = True,
        cpe_kernel: int = 0,
        window_size: int = 14,
        mask_padding: bool = False,
        conv_ffn: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            arch,
            img_size=img_size,
            attn_types=attn_types,
            drop_path_rate=drop_path_rate,
            mixers=mixers,
            **kwargs,
        )
        check_side('window_size', window_size)
        if conv_ffn and self.traits['swiglu']:
            raise ValueError('conv_ffn: expected False for an architecture with SwiGLU, got True.')
        self.with_positions = with_positions
        self.cpe_kernel = cpe_kernel
        self.window_size = window_size
        self.mask_padding = mask_padding
        self.conv_ffn = conv_ffn
        self.build()

    def make_embed(self, stage: StagePlan) -> PlainEmbed:
        traits = self.traits
        rotary = None
        if traits['rotary']:
            rotary = NormalizedRotary(stage.embed_dims // stage.num_heads, traits['rotary'])
        return PlainEmbed(
            embed_dims=stage.embed_dims,
            patch_size=traits['patch_size'],
            grid_size=stage.grid,
            class_token=self.with_cls_token,
            positions=self.with_positions and rotary is None,
            border=self.border,
            registers=traits['registers'] if self.with_cls_token else 0,
            class_position=traits['class_position'],
            resize=traits['resize'],
            rotary=rotary,
            in_channels=stage.in_channels,
        )

    def make_block(self, stage: StagePlan, block: BlockPlan) -> Block:
        return pre_norm_block(
            mixer=self.make_mixer(stage, block),
            ffn=self.make_ffn(stage, block),
            embed_dims=stage.embed_dims,
            drop_path=block.drop_path,
            eps=self.norm_eps,
            cpe_kernel=self.cpe_kernel,
            layer_scale=self.traits['layer_scale'],
            window_size=(self.window_size, self.window_size) if block.letter == 'W' else None,
            mask_padding=self.mask_padding,
        )

    def make_mixer(self, stage: StagePlan, block: BlockPlan) -> TokenMixer:
        options: dict[str, Any] = {}
        if block.letter == 'W':
            options['grid_size'] = (self.window_size, self.window_size)
        if self.embed.rotary is not None:
            # A function, not a module, because its weights are those of the embedding.
            options['rotate'] = self.embed.rotary.__call__
        if not self.traits['key_bias']:
            options['key_bias'] = False
        return self.build_letter(stage, block.letter, **options)

    def make_ffn(self, stage: StagePlan, block: BlockPlan) -> nn.Module:
        dims, hidden_dims = stage.embed_dims, stage.hidden_dims
        if self.conv_ffn:
            return ConvFeedForward(dims, hidden_dims, act_twice=True, residual=False)
        if self.traits['swiglu']:
            return SwiGLU(dims, hidden_dims)
        return FeedForward(dims, hidden_dims)

    def _load_pretrained(self, checkpoint: str, *args: Any, **kwargs: Any) -> None:
        is_local = '://' not in checkpoint
        is_dinov3 = self.embed.rotary is not None
        if is_dinov3 and is_local and not Path(checkpoint).expanduser().exists():
            raise ValueError(f'checkpoint {checkpoint} does not exist. {DINOV3_FILES}')
        super()._load_pretrained(checkpoint, *args, **kwargs)
