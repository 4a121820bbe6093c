"""Plain vision transformers: ViT, DeiT, DeiT III, DINOv2, DINOv3 and a user's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mmflatten.models.attention import build_mixer
from mmflatten.models.backbones.arch import check_side, resolve_arch, stage_plan
from mmflatten.models.backbones.letters import (
    FOCUSED,
    SOFTMAX,
    block_letters,
    check_letters,
    letter_mixers,
)
from mmflatten.models.backbones.plain import PlainBackbone, PlainEmbed
from mmflatten.models.layers import (
    ConvFeedForward,
    FeedForward,
    NormalizedRotary,
    SwiGLU,
    pre_norm_block,
)
from mmflatten.registry import MODELS

_SIZES: dict[str, dict[str, Any]] = {
    name: dict(embed_dims=dims, depth=depth, num_heads=heads)
    for name, dims, depth, heads in (
        ('tiny', 192, 12, 3),
        ('small', 384, 12, 6),
        ('medium', 512, 12, 8),
        ('base', 768, 12, 12),
        ('large', 1024, 24, 16),
        ('huge', 1280, 32, 16),
        ('giant', 1536, 40, 24),
        ('huge-plus', 1280, 32, 20),
        ('7b', 4096, 40, 32),
    )
}
_SIZES['small-plus'] = _SIZES['small']
# What the weights of a family determine, besides their size.
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
_DINOV2 = dict(patch_size=14, img_size=518, layer_scale=1e-5, resize='bicubic-offset')
_DINOV3 = dict(registers=4, layer_scale=1e-5, rotary=100.0, eps=1e-5, key_bias=False)


def _archs(
    prefix: str, sizes: str, special: Mapping[str, dict] | None = None, **traits: Any
) -> dict[str, dict]:
    """Architectures of a family by name; `special` are the traits of single sizes."""
    return {
        prefix + size: {**_SIZES[size], **_TRAITS, **traits, **(special or {}).get(size, {})}
        for size in sizes.split()
    }


_GIANT = dict(giant=dict(mlp_ratio=8 / 3, swiglu=True))
_GATED = dict(swiglu=True)
DINOV3_FILES = (
    'For files of DINOv3 accept its license at'
    ' ai.meta.com/resources/models-and-libraries/dinov3-downloads or huggingface.co/facebook, and'
    ' `mmflatten convert` them with --family auto.'
)
ARCHS = {
    **_archs('', 'tiny small base large huge', dict(huge=dict(patch_size=14))),
    **_archs(
        'deit3-',
        'small medium base large huge',
        dict(huge=dict(patch_size=14)),
        layer_scale=1e-6,
        class_position=False,
    ),
    **_archs('dinov2-', 'small base large giant', _GIANT, **_DINOV2),
    **_archs(
        'dinov2-reg-',
        'small base large giant',
        _GIANT,
        **{**_DINOV2, 'registers': 4, 'resize': 'bicubic-antialias'},
    ),
    **_archs(
        'dinov3-',
        'small small-plus base large huge-plus 7b',
        {
            'small-plus': _GATED,
            'huge-plus': _GATED,
            '7b': dict(_GATED, mlp_ratio=2.0, qkv_bias=False),
        },
        **_DINOV3,
    ),
}


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
        window_size: side of the windows of `W` in patches; a window has a copy of the prefix
            tokens, whose outputs are averaged over windows, and rotary positions run over it as
            over an image.
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
    # DINOv3's files may hold a norm of crops, and not all hold its periods.
    droppable_weights = (*PlainBackbone.droppable_weights, r'local_cls_norm\..*')
    new_weights = (*PlainBackbone.new_weights, r'embed\.rotary\.periods')

    def __init__(
        self,
        arch: str | dict = 'base',
        img_size: int | Sequence[int] | None = None,
        patch_size: int | None = None,
        attn_types: str = 'S',
        linear_attention: dict | None = None,
        qkv_bias: bool | None = None,
        out_type: str = 'cls_token',
        drop_path_rate: float = 0.0,
        out_indices: Sequence[int] | None = None,
        frozen_stages: int = -1,
        with_cp: bool = False,
        init_cfg: dict | list | None = None,
        mixers: dict | None = None,
        with_cls_token: bool = True,
        with_positions: bool = True,
        border: int = 0,
        cpe_kernel: int = 0,
        progressive_norm: int = 0,
        output_norm: str = 'separate',
        window_size: int = 14,
        mask_padding: bool = False,
        conv_ffn: bool = False,
    ) -> None:
        traits = resolve_arch(arch, self.archs, required=('embed_dims', 'depth', 'num_heads'))
        given = dict(img_size=img_size, patch_size=patch_size, qkv_bias=qkv_bias)
        traits.update({name: value for name, value in given.items() if value is not None})
        _check(traits, window_size, border, conv_ffn)
        mixers = letter_mixers(mixers, linear_attention, dict(L=FOCUSED, S=SOFTMAX, W=SOFTMAX))
        letters = block_letters(attn_types, attn_types, traits['depth'])
        check_letters('attn_types', attn_types, [letters], mixers)
        (stage,) = stage_plan(
            dict(traits, num_heads=[traits['num_heads']]),
            traits['img_size'],
            [letters],
            drop_path_rate,
            stride=traits['patch_size'],
        )
        grid = (stage.grid[0] + 2 * border, stage.grid[1] + 2 * border)
        C, rotary = stage.embed_dims, None
        common = dict(embed_dims=C, num_heads=stage.num_heads, qkv_bias=traits['qkv_bias'])
        if traits['rotary']:
            rotary = NormalizedRotary(C // stage.num_heads, traits['rotary'])
            # a function, not a module: its weights are those of the embedding
            common['rotate'] = rotary.__call__
        common |= {} if traits['key_bias'] else dict(key_bias=False)
        blocks = []
        for letter, rate in stage.blocks:
            size = (window_size, window_size) if letter == 'W' else grid
            mixer = build_mixer(mixers[letter], grid_size=size, **common)
            ffn = (
                ConvFeedForward(C, stage.hidden_dims, act_twice=True, residual=False)
                if conv_ffn
                else (SwiGLU if traits['swiglu'] else FeedForward)(C, stage.hidden_dims)
            )
            blocks.append(
                pre_norm_block(
                    mixer,
                    ffn,
                    C,
                    rate,
                    traits['eps'],
                    cpe_kernel,
                    traits['layer_scale'],
                    window_size=(window_size, window_size) if letter == 'W' else None,
                    mask_padding=mask_padding,
                )
            )
        embed = PlainEmbed(
            C,
            traits['patch_size'],
            grid,
            with_cls_token,
            with_positions and not traits['rotary'],
            border,
            with_cls_token * traits['registers'],
            traits['class_position'],
            traits['resize'],
            rotary,
        )
        super().__init__(
            embed,
            blocks,
            out_type,
            out_indices,
            frozen_stages,
            traits['eps'],
            with_cp,
            init_cfg,
            progressive_norm,
            output_norm,
        )
        if not with_cls_token:
            self.droppable_weights = (*self.droppable_weights, r'embed\.(cls_token|registers)')

    def _load_pretrained(self, checkpoint: str, *args: Any, **kwargs: Any) -> None:
        if (
            self.embed.rotary is not None
            and '://' not in checkpoint
            and not Path(checkpoint).expanduser().exists()
        ):
            raise ValueError(f'checkpoint {checkpoint} does not exist. {DINOV3_FILES}')
        super()._load_pretrained(checkpoint, *args, **kwargs)


def _check(traits: Mapping[str, Any], window_size: int, border: int, conv_ffn: bool) -> None:
    if conv_ffn and traits['swiglu']:
        raise ValueError('conv_ffn: expected False for an architecture with SwiGLU, got True.')
    check_side('patch_size', traits['patch_size'])
    check_side('window_size', window_size)
    if not isinstance(border, int) or border < 0:
        raise ValueError(f'border: expected a number of patches, 0 for none, got {border!r}.')
    size = traits['img_size']
    sides = [
        side
        for side in (size if isinstance(size, (list, tuple)) else [size])
        if isinstance(side, int)
    ]
    if min(sides, default=traits['patch_size']) < traits['patch_size']:
        raise ValueError(
            f'img_size: expected at least one patch of {traits["patch_size"]} pixels, got {size}.'
        )
