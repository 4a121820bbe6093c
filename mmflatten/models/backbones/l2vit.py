"""L2ViT: alternating window attention and enhanced linear attention."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice

from torch import Tensor, nn

from mmflatten.models.attention import Windowed, build_mixer
from mmflatten.models.backbones.arch import check_side, resolve_arch, stage_plan
from mmflatten.models.backbones.base import CONV_INIT
from mmflatten.models.backbones.letters import SOFTMAX, check_letters, letter_mixers
from mmflatten.models.backbones.pyramid import PyramidBackbone, Stage
from mmflatten.models.layers import (
    Block,
    ConvEmbed,
    ConvStack,
    FeedForward,
    Linear,
    LocalConcentration,
    NormalizedConv,
    NormedDownsample,
    Residual,
    TokenConv,
    conv_bn,
    map_shape,
    map_to_tokens,
    output_map,
)
from mmflatten.registry import MODELS

ARCHS = {
    'tiny': dict(embed_dims=96, depths=(2, 2, 6, 2), num_heads=(3, 6, 12, 24), mlp_ratio=4.0),
    'small': dict(embed_dims=96, depths=(2, 2, 18, 2), num_heads=(3, 6, 12, 24), mlp_ratio=4.0),
    'base': dict(embed_dims=128, depths=(2, 2, 18, 2), num_heads=(4, 8, 16, 32), mlp_ratio=4.0),
    # Table 7. The paper does not state the MLP ratio; 3 reproduces its parameters and FLOPs.
    'deep-narrow': dict(
        embed_dims=64, depths=(4, 4, 18, 4), num_heads=(2, 4, 8, 16), mlp_ratio=3.0
    ),
}
STEMS = (True, '4L', 'overlapped', False)
MLPS = {
    'plain': lambda dims: None,
    'pvt_v2': lambda dims: TokenConv(dims, 3, gelu=True),
    'local': NormalizedConv,
}


@MODELS.register_module()
class L2ViT(PyramidBackbone):
    """Backbone with alternating global linear attention and window attention, and convolutional
    positions.

    Source: L2ViT. The defaults are the released models, which zero-pad maps to whole windows and
        attend to the padding.
    Table 6: `block_order='WV', conv_stem=False` is Enhanced Swin v1, `block_order='WC'` Enhanced
    Swin v2.

    Letters: `W` is window attention and `V` the same in shifted windows, each followed by a second
        positional
    encoding. `L` is linear attention; `S` and letters added by `mixers` are other global
    attentions. `C` replaces the linear attention with window attention. `L`, `S`, `C` and added
    letters are followed by local concentration. `mixers` can override all letters.

    Args:
        arch: 'tiny', 'small', 'base', 'deep-narrow' (Table 7), or a dict as in `Backbone`.
        block_order: letters repeated over the blocks of every stage, or a list with the letters of
            each stage.
        window_size: side of the windows; 12 at 384 x 384.
        min_denominator: lower bound of the denominator of `L` (Table 10).
        temperature: multiply `k^T v` in `L` by a learned factor, the paper's scale parameter.
        lcm_kernel: kernel size of local concentration; None or 0 for none.
        mlp: 'plain', 'pvt_v2' (with a depthwise convolution) or 'local' (with norms around it as
            well), Table 12.
        conv_stem: True for two 3 x 3 convolutions, '4L' for four, False for plain patches,
            'overlapped' for one 7 x 7.
        overlapped_downsample: use 3 x 3 instead of 2 x 2 convolutions between the stages.
        last_projection: channels of a projection with ReLU after the last norm, True for 1280
            (Table 7), False for none. Only for classification.
        img_size, mixers, linear_attention, qkv_bias, mask_padding, drop_path_rate: as in
            `Backbone`.
        kwargs: `out_indices`, `frozen_stages`, `with_cp` and `init_cfg` of `Backbone`.
    """

    droppable_weights = (*PyramidBackbone.droppable_weights, r'last_projection\..*')
    default_init = CONV_INIT

    def __init__(
        self,
        arch: str | dict = 'tiny',
        img_size: int | Sequence[int] = 224,
        window_size: int = 7,
        block_order: str | Sequence[str] = 'WL',
        conv_stem: bool | str = True,
        overlapped_downsample: bool = False,
        lcm_kernel: int | None = 7,
        min_denominator: float = 100.0,
        temperature: bool = True,
        mlp: str = 'plain',
        last_projection: bool | int = False,
        linear_attention: dict | None = None,
        qkv_bias: bool = True,
        mask_padding: bool = False,
        drop_path_rate: float = 0.1,
        mixers: dict | None = None,
        **kwargs,
    ) -> None:
        settings = resolve_arch(arch, ARCHS)
        check_side('window_size', window_size)
        for name, value, choices in (('conv_stem', conv_stem, STEMS), ('mlp', mlp, tuple(MLPS))):
            if value not in choices:
                raise ValueError(f'{name}: expected one of {choices}, got {value!r}.')
        clamped = dict(
            type='ClampedLinearAttention', min_denominator=min_denominator, temperature=temperature
        )
        mixers = letter_mixers(
            mixers, linear_attention, {'L': clamped, **dict.fromkeys('WVCS', SOFTMAX)}
        )
        letters = _repeat(block_order, settings['depths'], mixers)
        plan = stage_plan(settings, img_size, letters, drop_path_rate)
        window = (window_size, window_size)

        stages: list[Stage] = []
        for stage in plan:
            dims, blocks = stage.embed_dims, []
            for letter, rate in stage.blocks:
                windowed = letter in 'WVC'
                mixer = build_mixer(
                    mixers[letter],
                    embed_dims=dims,
                    num_heads=stage.num_heads,
                    grid_size=window if windowed else stage.grid,
                    qkv_bias=qkv_bias,
                )
                if windowed:
                    mixer = Windowed(mixer, window, shift=letter == 'V', mask_padding=mask_padding)
                ffn = FeedForward(dims, stage.hidden_dims, MLPS[mlp](stage.hidden_dims))
                blocks.append(_block(mixer, ffn, dims, letter in 'WV', lcm_kernel, rate))
            embed = (
                NormedDownsample(stage.in_channels, dims, overlapped_downsample)
                if stages
                else _stem(conv_stem, dims)
            )
            stages.append(Stage(embed, blocks))
        super().__init__(stages, [nn.LayerNorm(stage.embed_dims) for stage in plan], **kwargs)
        if not isinstance(last_projection, int) or last_projection < 0:
            raise ValueError(
                'last_projection: expected True, False or a number of channels, '
                f'got {last_projection!r}.'
            )
        self.last_channels = (
            (1280 if last_projection is True else int(last_projection)) if self.is_whole else 0
        )
        self.last_projection = (
            Linear(plan[-1].embed_dims, self.last_channels) if self.last_channels else None
        )

    def forward(self, image_B3HW: Tensor) -> tuple[Tensor, ...]:
        *maps, last = super().forward(image_B3HW)
        if self.last_projection is not None:
            last = output_map(self.last_projection(map_to_tokens(last)).relu(), map_shape(last))
        return (*maps, last)


def _repeat(block_order: str | Sequence[str], depths: Sequence[int], mixers: dict) -> list[str]:
    """Return for each stage a string with one letter per block."""
    orders = [block_order] * len(depths) if isinstance(block_order, str) else block_order
    if len(orders) != len(depths) or not all(isinstance(order, str) and order for order in orders):
        raise ValueError(
            f"block_order: expected letters such as 'WL', or a list of letters for each of the "
            f'{len(depths)} stages, got {block_order!r}.'
        )
    check_letters('block_order', block_order, orders, mixers)
    return [''.join(islice(cycle(order), depth)) for order, depth in zip(orders, depths)]


def _stem(conv_stem: bool | str, embed_dims: int) -> nn.Module:
    half = embed_dims // 2
    if conv_stem == 'overlapped':
        return ConvEmbed(3, embed_dims, 7, 4, 3)
    if conv_stem == '4L':
        layers = [
            *conv_bn(3, half, 7, 2),
            nn.ReLU(),
            *conv_bn(half, half, 3),
            nn.ReLU(),
            *conv_bn(half, half, 3),
            nn.ReLU(),
            nn.Conv2d(half, embed_dims, 2, 2),
        ]
    elif conv_stem:
        layers = [
            *conv_bn(3, half, 3, 2, bias=True),
            nn.ReLU(),
            *conv_bn(half, embed_dims, 3, 2, bias=True),
        ]
    else:
        return ConvEmbed(3, embed_dims, 4, 4)
    return ConvStack(layers, embed_dims, stride=4, norm=True)


def _block(
    mixer: nn.Module,
    ffn: nn.Module,
    embed_dims: int,
    two_encodings: bool,
    lcm_kernel: int | None,
    drop_path: float,
) -> Block:
    """Build a block: positional encoding, attention, a second encoding or local concentration, and
    the MLP.
    """

    def normed(fn: nn.Module) -> Residual:
        return Residual(fn, nn.LayerNorm(embed_dims), drop_path)

    branches = dict(cpe=Residual(TokenConv(embed_dims, 3)), attn=normed(mixer))
    if two_encodings:
        branches['cpe2'] = Residual(TokenConv(embed_dims, 3))
    elif lcm_kernel:
        branches['lcm'] = normed(LocalConcentration(embed_dims, lcm_kernel))
    return Block(**branches, ffn=normed(ffn))
