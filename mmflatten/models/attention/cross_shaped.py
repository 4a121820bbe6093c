"""Cross-shaped windows of CSwin Transformer, around any mixer."""

from __future__ import annotations

import torch
from einops import rearrange
from mmengine.model import BaseModule, ModuleList
from torch import Tensor

from mmflatten.models.attention.base import TokenMixer, build_mixer, check_heads
from mmflatten.models.attention.local_term import ValueConv
from mmflatten.models.attention.windowed import Windowed
from mmflatten.models.layers import FullRangeLinear, Linear
from mmflatten.registry import MODELS


@MODELS.register_module()
class CrossShapedAttention(BaseModule):
    """Half of the heads attend in vertical stripes of the map, half in horizontal ones.

    A stripe is as long as the map, whatever its size, and `split` wide. A map that does not consist
    of whole stripes is zero-padded after the projection, so that keys and values of padding are 0.
    If one stripe covers the map in pre-training, all heads attend to the whole map, at any size.
    With an odd number of heads, vertical stripes have one more. Source: CSwin Transformer (CVPR
    2022), sec. 3.2.

    Args:
        embed_dims: channels `C`.
        num_heads: number of heads; must divide `C`.
        grid_size: `(H, W)` of the map in pre-training.
        split: width of the stripes; None for the whole map.
        mixer: config of the mixer inside the stripes, a `TokenMixer` with its usual projections,
            which are computed here for all stripes at once.
        lepe_kernel: kernel size of CSwin's depthwise convolution of the values inside the stripes
            (locally enhanced positional encoding), in place of the mixer's own `lepe`; 0 for none.
        mask_padding: exclude padding from attention.
        qkv_bias: use a bias in the projections of queries, keys and values.
        sr_ratio: must be 1, because stripes of reduced maps are not defined.
    """

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        split: int | None = 7,
        mixer: dict = dict(type='SoftmaxAttention'),
        lepe_kernel: int = 3,
        mask_padding: bool = False,
        qkv_bias: bool = True,
        sr_ratio: int = 1,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(init_cfg)
        check_heads(embed_dims, num_heads)
        if split is not None and split < 1:
            raise ValueError(f'split: expected at least 1, or None for the whole map, got {split}.')
        if sr_ratio != 1:
            raise ValueError(
                'sr_ratio: expected 1, because cross-shaped windows do not reduce keys, got'
                f' {sr_ratio}.'
            )
        H, W = grid_size
        # Windows of the branches with their sizes in pre-training, and numbers of heads.
        stripes: list[tuple[tuple[int | None, int | None] | None, tuple[int, int]]]
        if split is None or split >= max(H, W):
            stripes = [(None, (H, W))]
            heads = [num_heads]
        else:
            rows = min(split, H)
            cols = min(split, W)
            stripes = [((None, cols), (H, cols)), ((rows, None), (rows, W))]
            heads = [num_heads - num_heads // 2, num_heads // 2]
        self.channels = [embed_dims // num_heads * number for number in heads if number]
        mixers = []
        for (_, size), number, channels in zip(stripes, heads, self.channels):
            inner = build_mixer(mixer, embed_dims=channels, num_heads=number, grid_size=size)
            if not isinstance(inner, TokenMixer):
                raise ValueError(
                    f'mixer: expected a TokenMixer inside the stripes, got {type(inner).__name__}.'
                )
            inner.remove_projections()
            inner.lepe = ValueConv(channels, lepe_kernel) if lepe_kernel else None
            mixers.append(inner)
        self.needs_input = 'x' in mixers[0].extra_inputs
        self.needs_residual = mixers[0].reads_residual_in_stripes
        self.num_projections = 3 + len(mixers[0].extra_inputs) - self.needs_input
        self.qkv = Linear(embed_dims, self.num_projections * embed_dims, bias=qkv_bias)
        self.branches = ModuleList(
            Windowed(inner, window, mask_padding=mask_padding)
            for inner, (window, _) in zip(mixers, stripes)
        )
        self.proj = FullRangeLinear(embed_dims, embed_dims)

    def forward(
        self,
        x: Tensor,
        hw_shape: tuple[int, int],
        mask: Tensor | None = None,
        residual: Tensor | None = None,
    ) -> Tensor:
        """Mix the tokens of a map, `(B, N, C)`, to the same shape.

        `residual` are the tokens before the norm of the block, which replace the input of a mixer
        that reads both.

        Raises:
            ValueError: a mask is given, because stripes make their own.
        """
        inputs = self.parts(x, residual).split(self.channels, dim=-1)
        outputs = [branch(part, hw_shape, mask) for branch, part in zip(self.branches, inputs)]
        return self.proj(outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1))

    def parts(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Input of the branches `(B, N, P, C)`: the projections, followed by the tokens if the
        mixer needs them.
        """
        parts = rearrange(self.qkv(x), 'B N (P C) -> B N P C', P=self.num_projections)
        if not self.needs_input:
            return parts
        tokens = x if residual is None else residual.to(parts.dtype)
        return torch.cat((parts, tokens.unsqueeze(2)), dim=2)
