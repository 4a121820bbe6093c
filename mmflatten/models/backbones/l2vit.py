"""L2ViT: window attention and enhanced linear attention in turn."""
from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from torch import Tensor, nn

from mmflatten.models.attention import SoftmaxAttention, Windowed, build_mixer
from mmflatten.models.backbones.arch import check_side, drop_path_schedule, resolve_arch, stage_grids
from mmflatten.models.backbones.base import DEFAULT_INIT
from mmflatten.models.backbones.pyramid import PyramidBackbone, Stage
from mmflatten.models.layers import (
    Block,
    ConvEmbed,
    ConvStem,
    FeedForward,
    Linear,
    LocalConcentration,
    NormalizedConv,
    NormedDownsample,
    Residual,
    TokenConv,
    map_to_tokens,
    output_map,
)
from mmflatten.registry import MODELS

ARCHS = {
    'tiny': dict(embed_dims=96, depths=(2, 2, 6, 2), num_heads=(3, 6, 12, 24), mlp_ratio=4.),
    'small': dict(embed_dims=96, depths=(2, 2, 18, 2), num_heads=(3, 6, 12, 24), mlp_ratio=4.),
    'base': dict(embed_dims=128, depths=(2, 2, 18, 2), num_heads=(4, 8, 16, 32), mlp_ratio=4.),
    # Table 7; only an MLP ratio of 3, which the paper does not state, gives its parameters and FLOPs.
    'deep-narrow': dict(embed_dims=64, depths=(4, 4, 18, 4), num_heads=(2, 4, 8, 16), mlp_ratio=3.),
}
STEMS = (True, '4L', 'overlapped', False)
MLPS = {'plain': lambda dims: None, 'pvt_v2': lambda dims: TokenConv(dims, 3), 'local': NormalizedConv}


@MODELS.register_module()
class L2ViT(PyramidBackbone):
    """Linear global attention and local window attention in turn, with convolutional positional encoding.

    Source: L2ViT. The defaults are the released models, whose windows attend the zero padding of a map that does not
    fit them. Table 6: `block_order='WS', conv_stem=False` is Enhanced Swin v1, `block_order='WC'` Enhanced Swin v2.

    Args:
        arch: 'tiny', 'small', 'base', 'deep-narrow' (Table 7), or a dict of `embed_dims` (of the first stage, doubled
            in each next one), `depths`, `num_heads` and, if wanted, `mlp_ratio`.
        img_size: image size in pre-training, for mixers with positional tables; any other works in `forward`.
        window_size: side of the windows; 12 at 384 x 384.
        block_order: letters repeated through the blocks of every stage. `W` window attention, `S` the same in shifted
            windows, `L` linear attention and local concentration, `C` window attention in the place of that linear
            attention.
        conv_stem: True for two 3 x 3 convolutions, '4L' for four, False for plain patches, 'overlapped' for one 7 x 7.
        overlapped_downsample: 3 x 3 convolutions between the stages instead of 2 x 2.
        lcm_kernel: of the local concentration modules; None or 0 for none.
        clamp_min: lower bound of the denominator of linear attention (Table 10).
        temperature: learned factor of `k^T v`, the paper's scale parameter.
        mlp: 'plain', 'pvt_v2' (a depthwise convolution inside) or 'local' (with norms around it too), Table 12.
        last_projection: channels of a projection with ReLU behind the last norm, True for 1280 (Table 7); False for
            none. For classification: detectors leave it out.
        linear_attention: another mixer in the place of `L`'s, such as `dict(type='FocusedLinearAttention')`.
        qkv_bias: whether the projections to query, key and value have a bias.
        mask_padding: keep windows from attending zero padding.
        drop_path_rate: of the last block; grows linearly from 0.
        out_indices: stages whose maps are returned, normalised.
        frozen_stages: -1 trains everything; 0 freezes the stem, `i` also the first `i` stages.
        with_cp: recompute activations in the backward pass.
    """

    droppable_weights = (*PyramidBackbone.droppable_weights, r'last_projection\..*')

    def __init__(self, arch: str | dict = 'tiny', img_size: int | Sequence[int] = 224, window_size: int = 7,
                 block_order: str = 'WL', conv_stem: bool | str = True, overlapped_downsample: bool = False,
                 lcm_kernel: int | None = 7, clamp_min: float = 100., temperature: bool = True, mlp: str = 'plain',
                 last_projection: bool | int = False, linear_attention: dict | None = None, qkv_bias: bool = True,
                 mask_padding: bool = False, drop_path_rate: float = 0.1,
                 out_indices: Sequence[int] = (0, 1, 2, 3), frozen_stages: int = -1, with_cp: bool = False,
                 init_cfg: dict | list | None = None) -> None:
        settings = resolve_arch(arch, ARCHS, required=('embed_dims', 'depths', 'num_heads'))
        _check(window_size, block_order, conv_stem, mlp)
        depths = settings['depths']
        dims = [settings['embed_dims'] * 2 ** i for i in range(len(depths))]
        grids = stage_grids(img_size, [4 * 2 ** i for i in range(len(depths))])
        linear = linear_attention or dict(type='ClampedLinearAttention', clamp_min=clamp_min, temperature=temperature)

        stages = []
        for i, rates in enumerate(drop_path_schedule(drop_path_rate, depths)):
            shared = dict(embed_dims=dims[i], num_heads=settings['num_heads'][i], qkv_bias=qkv_bias)
            blocks = []
            for letter, rate in zip(cycle(block_order), rates):
                if letter == 'L':
                    mixer = build_mixer(linear, grid_size=grids[i], **shared)
                else:
                    window = (window_size, window_size)
                    mixer = Windowed(SoftmaxAttention(grid_size=window, **shared), window, shift=letter == 'S',
                                     mask_padding=mask_padding)
                kernel = lcm_kernel if letter in 'LC' else None
                blocks.append(_block(mixer, dims[i], settings['mlp_ratio'], mlp, letter in 'WS', kernel, rate))
            embed = (_stem(conv_stem, dims[0]) if i == 0 else
                     NormedDownsample(dims[i - 1], dims[i], overlapped_downsample))
            stages.append(Stage(embed, blocks, with_cp=with_cp))
        init_cfg = [*DEFAULT_INIT, dict(type='TruncNormal', layer='Conv2d', std=.02)] if init_cfg is None else init_cfg
        super().__init__(stages, [nn.LayerNorm(d) for d in dims], out_indices, frozen_stages, init_cfg)
        if not isinstance(last_projection, int) or last_projection < 0:
            raise ValueError(f'last_projection ({last_projection!r}) must be True, False or a number of channels')
        self.projects_last = bool(last_projection) and self.out_indices[-1] == len(dims) - 1
        width = 1280 if last_projection is True else last_projection
        self.last_projection = Linear(dims[-1], width) if self.projects_last else None

    @property
    def out_channels(self) -> tuple[int, ...]:
        """Channels of the returned maps."""
        channels = super().out_channels
        return (*channels[:-1], self.last_projection.out_features) if self.projects_last else channels

    def forward(self, image_B3HW: Tensor) -> tuple[Tensor, ...]:
        *maps, last = super().forward(image_B3HW)
        if self.projects_last:
            tokens = self.last_projection(map_to_tokens(last)).relu()
            last = output_map(tokens, tuple(last.shape[-2:]))
        return (*maps, last)


def _check(window_size: int, block_order: str, conv_stem: bool | str, mlp: str) -> None:
    check_side('window_size', window_size)
    if not block_order or set(block_order) - set('WSLC'):
        raise ValueError(f"block_order ({block_order!r}) must consist of the letters W, S, L and C, such as 'WL'")
    if conv_stem not in STEMS:
        raise ValueError(f'conv_stem ({conv_stem!r}) must be one of {STEMS}')
    if mlp not in MLPS:
        raise ValueError(f'mlp ({mlp!r}) must be one of {sorted(MLPS)}')


def _stem(conv_stem: bool | str, embed_dims: int) -> nn.Module:
    if conv_stem == 'overlapped':
        return ConvEmbed(3, embed_dims, 7, 4, 3)
    return ConvStem(embed_dims, conv_stem == '4L') if conv_stem else ConvEmbed(3, embed_dims, 4, 4)


def _block(mixer: nn.Module, embed_dims: int, mlp_ratio: float, mlp: str, two_encodings: bool,
           lcm_kernel: int | None, drop_path: float) -> Block:
    """A block: positional encoding, attention, then a second encoding or local concentration, then the MLP."""
    def normed(fn: nn.Module) -> Residual:
        return Residual(fn, nn.LayerNorm(embed_dims), drop_path)

    hidden = int(embed_dims * mlp_ratio)
    branches = dict(cpe=Residual(TokenConv(embed_dims, 3)), attn=normed(mixer))
    if two_encodings:
        branches['cpe2'] = Residual(TokenConv(embed_dims, 3))
    if lcm_kernel:
        branches['lcm'] = normed(LocalConcentration(embed_dims, lcm_kernel))
    return Block(**branches, ffn=normed(FeedForward(embed_dims, hidden, MLPS[mlp](hidden))))
