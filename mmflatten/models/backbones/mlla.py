"""MILA (MLLA) and H-ViT^3, which share a skeleton."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from mmflatten.models.backbones.arch import BlockPlan, StagePlan
from mmflatten.models.backbones.pyramid import PyramidBackbone
from mmflatten.models.layers import (
    Block,
    ConvFeedForward,
    ConvStack,
    Residual,
    TokenConv,
    conv_bn,
    map_shape,
    map_to_tokens,
    pad_to_multiple,
)
from mmflatten.registry import MODELS

_HEADS = (2, 4, 8, 16)
ARCHS = {
    'tiny': dict(
        embed_dims=(64, 128, 256, 512), depths=(2, 4, 8, 4), num_heads=_HEADS, mlp_ratio=4.0
    ),
    'small': dict(
        embed_dims=(64, 128, 256, 512), depths=(3, 6, 21, 6), num_heads=_HEADS, mlp_ratio=4.0
    ),
    'base': dict(
        embed_dims=(96, 192, 384, 768),
        depths=(3, 6, 21, 6),
        num_heads=(3, 6, 12, 24),
        mlp_ratio=4.0,
    ),
}
TTT_ARCHS = {
    'tiny': dict(
        embed_dims=(64, 128, 320, 512), depths=(1, 3, 9, 4), num_heads=(2, 4, 10, 16), mlp_ratio=4.0
    ),
    'small': dict(
        embed_dims=(64, 128, 320, 512),
        depths=(2, 6, 18, 8),
        num_heads=(2, 4, 10, 16),
        mlp_ratio=4.0,
    ),
    'base': dict(
        embed_dims=(96, 192, 448, 640),
        depths=(2, 6, 18, 8),
        num_heads=(3, 6, 14, 20),
        mlp_ratio=4.0,
    ),
}


@MODELS.register_module()
class MLLA(PyramidBackbone):
    """Backbone with Mamba-inspired linear attention between depthwise convolutions.

    Source: MILA (Demystify Mamba in Vision, Han et al., NeurIPS 2024), first called MLLA.

    Args:
        arch: 'tiny', 'small', 'base', or a dict of `embed_dims`, `depths` and `num_heads`, each
            with a number per stage, and optionally `mlp_ratio`.
        img_size, attn_types, mixers, linear_attention, qkv_bias, drop_path_rate: as in `Backbone`.
            The only letter is `L`, the family's attention; `mixers` can add others.
        kwargs: `out_indices`, `frozen_stages`, `with_cp` and `init_cfg` of `Backbone`.
    """

    archs = ARCHS
    default_mixers = dict(L=dict(type='MambaInspiredLinearAttention'))
    residual_stem = True

    def __init__(
        self,
        arch: str | dict = 'tiny',
        *,
        attn_types: str | Sequence[str] = 'LLLL',
        drop_path_rate: float = 0.2,
        mixers: dict | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            arch, letters=attn_types, drop_path_rate=drop_path_rate, mixers=mixers, **kwargs
        )
        self.build()

    def make_block(self, stage: StagePlan, block: BlockPlan) -> Block:
        dims, rate = stage.embed_dims, block.drop_path
        mixer = self.make_mixer(stage, block)
        return Block(
            cpe=Residual(TokenConv(dims, 3)),
            attn=Residual(mixer, nn.LayerNorm(dims), rate),
            cpe2=Residual(TokenConv(dims, 3)),
            ffn=Residual(self.make_ffn(stage, block), nn.LayerNorm(dims), rate),
        )

    def make_embed(self, stage: StagePlan) -> nn.Module:
        if stage.index == 0:
            return WideStem(stage.in_channels, stage.embed_dims, self.residual_stem)
        return _downsample(stage.in_channels, stage.embed_dims)


@MODELS.register_module()
class HViTTT(MLLA):
    """Hierarchical ViT^3: the skeleton of MILA with test-time training instead of attention.

    Source: ViT^3 (CVPR 2026). Its stem has no residual connection, and its blocks have one
    convolution before the attention and one inside the feed-forward network.

    Args:
        arch: 'tiny', 'small', 'base', or a dict as in `MLLA`.
        pooled: return the spatial mean of the last stage as a 1 x 1 map, after a batch norm over
            its tokens, as in the official classifier.
        kwargs: as in `MLLA`.
    """

    archs = TTT_ARCHS
    default_mixers = dict(L=dict(type='TTTAttention', rotary=True))
    droppable_weights = (*MLLA.droppable_weights, r'pool_norm\..*')
    residual_stem = False

    def __init__(self, arch: str | dict = 'tiny', *, pooled: bool = False, **kwargs: Any) -> None:
        super().__init__(arch, **kwargs)
        self.pool_norm = None
        if pooled and self.is_whole:
            self.pool_norm = nn.BatchNorm2d(self.out_channels[-1])
            # It replaces the output norm of the last stage.
            self.norms.pop(str(self.out_indices[-1]))

    def make_block(self, stage: StagePlan, block: BlockPlan) -> Block:
        dims, rate = stage.embed_dims, block.drop_path
        mixer = self.make_mixer(stage, block)
        ffn = ConvFeedForward(dims, stage.hidden_dims, act_twice=True)
        return Block(
            cpe=Residual(TokenConv(dims, 3)),
            attn=Residual(mixer, nn.LayerNorm(dims), rate),
            ffn=Residual(ffn, nn.LayerNorm(dims), rate),
        )

    def forward(self, image_B3HW: Tensor) -> tuple[Tensor, ...]:
        *maps, last = super().forward(image_B3HW)
        if self.pool_norm is not None:
            last = self.pool_norm(last).mean((-2, -1), keepdim=True)
        return (*maps, last)


class WideStem(nn.Module):
    """Convolutional stem of stride 4, `(B, C_in, H, W) -> (B, N, C), (H / 4, W / 4)`.

    Args:
        in_channels: bands of the image.
        embed_dims: channels `C`.
        residual: add a residual connection around the two middle convolutions; without it, a ReLU
            follows them.
    """

    stride = 4

    def __init__(self, in_channels: int, embed_dims: int, residual: bool) -> None:
        super().__init__()
        self.out_channels = embed_dims
        half = embed_dims // 2
        self.conv1 = nn.Sequential(*conv_bn(in_channels, half, 3, 2), nn.ReLU())
        self.pair = nn.Sequential(*conv_bn(half, half, 3), nn.ReLU(), *conv_bn(half, half, 3))
        self.residual = residual
        self.conv2 = nn.Sequential(
            *conv_bn(half, 4 * embed_dims, 3, 2), nn.ReLU(), *conv_bn(4 * embed_dims, embed_dims, 1)
        )

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, tuple[int, int]]:
        x_BCHW = self.conv1(pad_to_multiple(x_BCHW, (self.stride, self.stride)))
        pair_BCHW = self.pair(x_BCHW)
        x_BCHW = self.conv2(x_BCHW + pair_BCHW if self.residual else pair_BCHW.relu())
        return map_to_tokens(x_BCHW), map_shape(x_BCHW)


def _downsample(in_channels: int, embed_dims: int) -> ConvStack:
    """Return a downsampling by 2 through a hidden width of four times the output channels."""
    wide = 4 * embed_dims
    layers = [
        nn.Conv2d(in_channels, wide, 1),
        nn.ReLU(),
        nn.Conv2d(wide, wide, 3, 2, 1, groups=wide),
        nn.ReLU(),
        *conv_bn(wide, embed_dims, 1, bias=True),
    ]
    return ConvStack(layers, embed_dims, stride=2)
