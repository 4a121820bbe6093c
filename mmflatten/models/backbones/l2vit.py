"""L2ViT: alternating window attention and enhanced linear attention."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

from torch import Tensor, nn

from mmflatten.models.attention import Windowed
from mmflatten.models.backbones.arch import BlockPlan, StagePlan, check_side
from mmflatten.models.backbones.base import CONV_INIT
from mmflatten.models.backbones.letters import SOFTMAX, check_letters, letter_mixers
from mmflatten.models.backbones.pyramid import PyramidBackbone
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
MLPS = ('plain', 'pvt_v2', 'local')


@MODELS.register_module()
class L2ViT(PyramidBackbone):
    """Backbone with alternating global linear attention and window attention, and convolutional
    positions.

    Source: L2ViT. The defaults are the released models, which zero-pad maps to whole windows and
    attend to the padding. Table 6: `block_order='WV', conv_stem=False` is Enhanced Swin v1,
    `block_order='WC'` Enhanced Swin v2.

    Letters: `W` is window attention and `V` the same in shifted windows, each followed by a second
    positional encoding. `L` is linear attention; `S` and letters added by `mixers` are other global
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

    archs = ARCHS
    default_mixers = dict.fromkeys('WVCS', SOFTMAX)
    droppable_weights = (*PyramidBackbone.droppable_weights, r'last_projection\..*')
    default_init = CONV_INIT

    def __init__(
        self,
        arch: str | dict = 'tiny',
        *,
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
        mask_padding: bool = False,
        drop_path_rate: float = 0.1,
        mixers: dict | None = None,
        **kwargs: Any,
    ) -> None:
        clamped = dict(
            type='ClampedLinearAttention', min_denominator=min_denominator, temperature=temperature
        )
        super().__init__(
            arch,
            letters=block_order,
            mixers=letter_mixers(mixers, linear_attention, dict(L=clamped)),
            drop_path_rate=drop_path_rate,
            **kwargs,
        )
        check_side('window_size', window_size)
        _check_choice('conv_stem', conv_stem, STEMS)
        _check_choice('mlp', mlp, MLPS)
        self.window_size = window_size
        self.conv_stem = conv_stem
        self.overlapped_downsample = overlapped_downsample
        self.lcm_kernel = lcm_kernel
        self.mlp = mlp
        self.mask_padding = mask_padding
        last_channels = _projected_channels(last_projection)
        self.build()
        self.last_channels = last_channels if self.is_whole else 0
        self.last_projection = None
        if self.last_channels:
            self.last_projection = Linear(self.plan[-1].embed_dims, self.last_channels)

    def parse_letters(self, letters: str | Sequence[str], depths: Sequence[int]) -> list[str]:
        orders = [letters] * len(depths) if isinstance(letters, str) else letters
        if len(orders) != len(depths) or not all(
            isinstance(order, str) and order for order in orders
        ):
            raise ValueError(
                "block_order: expected letters such as 'WL', or a list of letters for each of the "
                f'{len(depths)} stages, got {letters!r}.'
            )
        check_letters('block_order', letters, orders, self.mixers)
        return [''.join(islice(cycle(order), depth)) for order, depth in zip(orders, depths)]

    def make_block(self, stage: StagePlan, block: BlockPlan) -> Block:
        """Build a block: positional encoding, attention, a second encoding or local concentration,
        and the MLP.
        """
        dims = stage.embed_dims

        def normed(fn: nn.Module) -> Residual:
            return Residual(fn, nn.LayerNorm(dims), block.drop_path)

        branches = dict(
            cpe=Residual(TokenConv(dims, 3)),
            attn=normed(self.make_mixer(stage, block)),
        )
        if block.letter in 'WV':
            branches['cpe2'] = Residual(TokenConv(dims, 3))
        elif self.lcm_kernel:
            branches['lcm'] = normed(LocalConcentration(dims, self.lcm_kernel))
        branches['ffn'] = normed(self.make_ffn(stage, block))
        return Block(**branches)

    def make_mixer(self, stage: StagePlan, block: BlockPlan) -> nn.Module:
        if block.letter not in 'WVC':
            return self.build_letter(stage, block.letter)
        window = (self.window_size, self.window_size)
        return Windowed(
            self.build_letter(stage, block.letter, grid_size=window),
            window,
            shift=block.letter == 'V',
            mask_padding=self.mask_padding,
        )

    def make_ffn(self, stage: StagePlan, block: BlockPlan) -> FeedForward:
        dims = stage.hidden_dims
        conv: TokenConv | NormalizedConv | None = None
        if self.mlp == 'pvt_v2':
            conv = TokenConv(dims, 3, gelu=True)
        elif self.mlp == 'local':
            conv = NormalizedConv(dims)
        return FeedForward(stage.embed_dims, dims, conv)

    def make_embed(self, stage: StagePlan) -> nn.Module:
        if stage.index == 0:
            return _stem(self.conv_stem, stage.in_channels, stage.embed_dims)
        return NormedDownsample(stage.in_channels, stage.embed_dims, self.overlapped_downsample)

    def forward(self, image_B3HW: Tensor) -> tuple[Tensor, ...]:
        *maps, last = super().forward(image_B3HW)
        if self.last_projection is not None:
            tokens = self.last_projection(map_to_tokens(last)).relu()
            last = output_map(tokens, map_shape(last))
        return (*maps, last)


def _check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    if value not in choices:
        raise ValueError(f'{name}: expected one of {choices}, got {value!r}.')


def _projected_channels(last_projection: bool | int) -> int:
    """Return the channels of the last projection, 0 for none."""
    if not isinstance(last_projection, int) or last_projection < 0:
        raise ValueError(
            'last_projection: expected True, False or a number of channels, '
            f'got {last_projection!r}.'
        )
    return 1280 if last_projection is True else int(last_projection)


def _stem(conv_stem: bool | str, in_channels: int, embed_dims: int) -> nn.Module:
    half = embed_dims // 2
    if conv_stem == 'overlapped':
        return ConvEmbed(in_channels, embed_dims, kernel_size=7, stride=4, padding=3)
    if not conv_stem:
        return ConvEmbed(in_channels, embed_dims, kernel_size=4, stride=4)
    if conv_stem == '4L':
        layers = [
            *conv_bn(in_channels, half, kernel_size=7, stride=2),
            nn.ReLU(),
            *conv_bn(half, half, kernel_size=3),
            nn.ReLU(),
            *conv_bn(half, half, kernel_size=3),
            nn.ReLU(),
            nn.Conv2d(half, embed_dims, kernel_size=2, stride=2),
        ]
    else:
        layers = [
            *conv_bn(in_channels, half, kernel_size=3, stride=2, bias=True),
            nn.ReLU(),
            *conv_bn(half, embed_dims, kernel_size=3, stride=2, bias=True),
        ]
    return ConvStack(layers, embed_dims, stride=4, norm=True)
