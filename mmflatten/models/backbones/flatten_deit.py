"""FLatten-DeiT and DeiT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mmflatten.models.backbones.vit import ARCHS, ViT
from mmflatten.registry import MODELS


@MODELS.register_module()
class FLattenDeiT(ViT):
    """DeiT with linear attention in some blocks.

    Source: FLatten Transformer (ICCV 2023), DeiT (ICML 2021). The official repository has no
    FLatten-DeiT. An author linked a script of FLatten-DeiT-T in its issue 12
    (LeapLabTHU/FLatten-Transformer), which was not compared with this class. As in other DeiTs by
    the same authors, the class token and positional embedding stay, and the class token takes part
    in the attention of every block. The positional encoding of the keys and the depthwise
    convolution of the values act only on the map. With `out_type='cls_token'` the convolution of
    the last block therefore does not affect the output and is not trained.

    Args:
        arch: 'tiny', 'small', 'base', or a dict of `embed_dims`, `depth`, `num_heads` and
            optionally `mlp_ratio`.
        patch_size: side of a patch.
        with_cls_token: False omits the class token. `out_type` must then be another, and a
            classifier averages the map before the norm ('avg_featmap') or after it ('featmap' with
            a `GlobalAveragePooling` neck).
        with_positions: False omits the learned positions.
        border: width in patches of a border of zeros on all sides of the image (1 in MHLA, for 16 x
            16 patches at 224).
        cpe_kernel: kernel size of a depthwise convolution before each block (conditional positional
            encoding); 0 for none.
        attn_types: one letter for all blocks, or one per block; 'S' is DeiT.
        out_type: 'cls_token' returns `(B, C)` per output, for a classifier without neck, and so
            does 'avg_featmap', the mean of the map; 'featmap' returns maps
            `(B, C, H / patch, W / patch)` for dense tasks.
        out_indices: blocks whose outputs are returned, each with a separate norm; None for the last
            block. Dense tasks use four, such as (2, 5, 8, 11).
        frozen_stages: -1 trains everything, 0 freezes the embedding with class token and positions,
            `i` also freezes the first `i` blocks.
        conv_ffn: as in `ViT`.
        img_size, mixers, linear_attention, qkv_bias: as in `Backbone`.
        drop_path_rate, with_cp, init_cfg, progressive_norm: as in `Backbone`.
    """

    archs = {
        'tiny': dict(ARCHS['tiny'], resize='bilinear'),
        'small': dict(ARCHS['small'], resize='bilinear'),
        'base': dict(ARCHS['base'], resize='bilinear'),
    }

    def __init__(
        self,
        arch: str | dict = 'tiny',
        *,
        img_size: int | Sequence[int] = 224,
        patch_size: int = 16,
        attn_types: str = 'L',
        qkv_bias: bool = True,
        drop_path_rate: float = 0.1,
        mixers: dict | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            arch,
            img_size=img_size,
            patch_size=patch_size,
            attn_types=attn_types,
            qkv_bias=qkv_bias,
            drop_path_rate=drop_path_rate,
            mixers=mixers,
            **kwargs,
        )
