"""Base class of token mixers: projections around an attention operator."""
from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import torch.nn.functional as F
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.attention.maps import Maps, values_at_queries
from mmflatten.models.layers import (
    FullRangeLinear,
    Linear,
    TokenConv,
    join_prefix,
    map_to_tokens,
    pad_to_multiple,
    split_prefix,
    tokens_to_map,
)
from mmflatten.ops import merge_heads, split_heads, widen
from mmflatten.registry import MODELS

GATINGS = ('none', 'plain', 'silu')


class TokenMixer(BaseModule):
    """Multi-head attention without the attention operator.

    Subclasses implement `attend`, which maps projected queries, keys and values to the output.

    Args:
        embed_dims: channels `C`.
        num_heads: number of heads `h`; must divide `C`.
        grid_size: `(H, W)` of the keys' map in pre-training, for position tables.
        qkv_bias: use a bias in the projections of queries, keys and values.
        sr_ratio: factor by which each side of the keys' map is reduced (PVT).
        lepe_kernel: kernel size of a depthwise convolution of the values that is added to the result (CSwin's locally
            enhanced positional encoding); 0 for none, None for `default_lepe`.
        gating: 'plain' multiplies the result by a further projection of the input, 'silu' by its SiLU, 'none' by
            nothing; None for `default_gating`.
        project: False omits all projections. The input is then `(B, N, 3, C)`, queries, keys and values, followed by
            `extra_projections`, so that another module can project and pass a part of its channels.
    """

    splits_heads = True
    """True if `attend` takes and returns `(B, h, N, d)`; False for `(B, N, C)`."""

    has_logits = False
    """True if masks may differ between queries, as in shifted windows; padding is then attended by default."""

    extra_projections: tuple[str, ...] = ()
    """Widths of further projections of the input, such as a gate: 'C', or 'd' for the width of a head."""

    default_lepe = 0
    """Default of `lepe_kernel`: the kernel size in the paper of the attention."""

    default_gating = 'none'
    """Default of `gating`; 'own' for a mixer that ends in another way, where it cannot be chosen."""

    multiplies = False
    """True if the input of the last projection is a product that can exceed float16. With `gating` it always is."""

    needs_input = False
    """True if `attend` reads `maps.x`. With `project=False` the last part of the input is then `x`."""

    stripes_need_residual = False
    """True if `maps.x` in `CrossShapedAttention` is the block's input before its norm."""

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], *, qkv_bias: bool = True,
                 sr_ratio: int = 1, lepe_kernel: int | None = None, gating: str | None = None, project: bool = True,
                 init_cfg: dict | None = None) -> None:
        super().__init__(init_cfg)
        check_heads(embed_dims, num_heads)
        self.gating = self.default_gating if gating is None else gating
        if gating is not None and (gating not in GATINGS or self.default_gating == 'own'):
            raise ValueError(f'gating: expected one of {GATINGS}, or None in a mixer with an end of its own, '
                             f'got {gating!r} in {type(self).__name__}.')
        if self.gating in GATINGS[1:]:
            self.extra_projections = (*self.extra_projections, 'C')
        if sr_ratio < 1 or (sr_ratio > 1 and not project):
            raise ValueError(f'sr_ratio: expected at least 1, and 1 with project=False, got {sr_ratio}.')
        if not project and 'd' in self.extra_projections:
            raise ValueError(f'project: expected True, because projections of {type(self).__name__} are as wide as a '
                             'head, got False. Use it outside CrossShapedAttention.')
        self.num_heads = num_heads
        self.widths = [embed_dims] * 3 + [{'C': embed_dims, 'd': embed_dims // num_heads}[width]
                                          for width in self.extra_projections]
        self.qkv = Linear(embed_dims, sum(self.widths), bias=qkv_bias) if project else None
        self.reduction = SpatialReduction(embed_dims, sr_ratio) if sr_ratio > 1 else None
        lepe_kernel = self.default_lepe if lepe_kernel is None else lepe_kernel
        self.lepe = TokenConv(embed_dims, lepe_kernel) if lepe_kernel else None
        last = FullRangeLinear if self.multiplies or self.gating in GATINGS[1:] else Linear
        self.proj: nn.Module = last(embed_dims, embed_dims) if project else nn.Identity()

    def forward(self, x: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None) -> Tensor:
        """Mix the tokens of a map.

        Args:
            x: tokens `(B, N, C)`, or `(B, N, 3, C)` without projections. `N` exceeds `H * W` by the number of prefix
                tokens, such as a class token.
            hw_shape: `(H, W)`.
            mask: boolean `(nW, N or 1, N)`, true for keys that a query may attend to; `B` is a multiple of `nW`.

        Returns:
            `(B, N, C)`.

        Raises:
            ValueError: a mask is given and keys are reduced.
        """
        if mask is not None and self.reduction is not None:
            raise ValueError('sr_ratio: expected 1 in windows that mask padding, because reduced keys mix tokens with '
                             f'padding, got {self.reduction.sr_ratio}.')
        q, k, v, maps = self.projections(x, hw_shape, mask)
        if self.splits_heads:
            q_BhNd, k_BhMd, v_BhMd = (split_heads(part, self.num_heads) for part in (q, k, v))
            y_BNC = merge_heads(self.attend(q_BhNd, k_BhMd, v_BhMd, maps))
        else:
            y_BNC = self.attend(q, k, v, maps)
        if self.lepe is not None:
            y_BNC = y_BNC + self.lepe(self.values_on_map(v, maps), maps.hw)
        return self.proj(self.finish(y_BNC, maps))

    @abstractmethod
    def attend(self, q: Tensor, k: Tensor, v: Tensor, maps: Maps) -> Tensor:
        """The attention operator.

        Args:
            q: queries `(B, h, N, d)`, or with `splits_heads = False` those that `projections` returns, `(B, N, C)`.
            k: keys of `M` tokens.
            v: values of the same tokens.
            maps: shapes of the maps, mask, prefix tokens and further projections.

        Returns:
            `(B, h, N, d)`, or `(B, N, C)` with `splits_heads = False`, in the order of the input.
        """

    def finish(self, y_BNC: Tensor, maps: Maps) -> Tensor:
        """Transform attention plus local term before the last projection, by default by the gate if there is one."""
        if self.gating not in GATINGS[1:]:
            return y_BNC
        gate_BNC = maps.extra[-1]
        return widen(y_BNC) * (F.silu(gate_BNC) if self.gating == 'silu' else gate_BNC)

    def values_on_map(self, v_BMC: Tensor, maps: Maps) -> Tensor:
        """Values at the positions of the queries, `(B, N, C)`, the input of `lepe`."""
        return values_at_queries(v_BMC, maps)

    def local_convolutions(self) -> dict[str, nn.Module]:
        """Convolutions of the values that are added to the attention, by attribute name.

        `mmflatten attention` can exclude them. Override this method if a mixer has others than `dwc` and `lepe`.
        """
        convolutions = {name: getattr(self, name, None) for name in ('dwc', 'lepe')}
        return {name: module for name, module in convolutions.items() if module is not None}

    def projections(self, x: Tensor, hw_shape: tuple[int, int],
                    mask: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Maps]:
        """Project the input.

        A mixer that overrides this method may return its tokens in another order and number, and then also overrides
        `values_on_map`.

        Returns:
            Queries `(B, N, C)`, keys and values `(B, M, C)`, and the maps for `attend`.
        """
        H, W = hw_shape
        prefix = x.shape[1] - H * W
        if self.qkv is None:
            q, k, v, *extra = x.unbind(2)
            source = extra.pop() if self.needs_input else None
            return q, k, v, Maps((H, W), (H, W), mask, prefix, source, tuple(extra))
        if self.reduction is None:
            q, k, v, *extra = self.qkv(x).split(self.widths, dim=-1)
            return q, k, v, Maps((H, W), (H, W), mask, prefix, x, tuple(extra))
        C = x.shape[-1]
        reduced, kv_hw = self.reduction(x, hw_shape)
        q_part, kv_part, *extra_parts = self.qkv.parts([C, 2 * C, *self.widths[3:]])
        q, *extra = (Linear.project(x, *part) for part in (q_part, *extra_parts))
        k, v = Linear.project(reduced, *kv_part).chunk(2, dim=-1)
        return q, k, v, Maps((H, W), kv_hw, mask, prefix, x, tuple(extra))


class SpatialReduction(BaseModule):
    """PVT's reduction of keys and values: a strided convolution on the map of the tokens, followed by a norm.

    Prefix tokens, such as a class token, are only normalised and stay before the map. Source: Pyramid Vision
    Transformer (ICCV 2021), sec. 3.3.
    """

    def __init__(self, embed_dims: int, sr_ratio: int) -> None:
        super().__init__()
        self.sr_ratio = sr_ratio
        self.conv = nn.Conv2d(embed_dims, embed_dims, sr_ratio, sr_ratio)
        self.norm = nn.LayerNorm(embed_dims)

    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> tuple[Tensor, tuple[int, int]]:
        """Reduced tokens and the shape of their map, which is first zero-padded to a multiple of `sr_ratio`."""
        prefix, tokens = split_prefix(x_BNC, hw_shape)
        x_BCHW = self.conv(pad_to_multiple(tokens_to_map(tokens, hw_shape), (self.sr_ratio, self.sr_ratio)))
        return self.norm(join_prefix(prefix, map_to_tokens(x_BCHW))), (x_BCHW.shape[2], x_BCHW.shape[3])


def check_heads(embed_dims: int, num_heads: int) -> None:
    """Raise ValueError unless the heads divide the channels."""
    if num_heads < 1 or embed_dims % num_heads:
        raise ValueError(f'num_heads: expected a divisor of embed_dims ({embed_dims}), got {num_heads}.')


def square_side(name: str, number: int) -> int:
    """Side of a square grid of `number` cells.

    Raises:
        ValueError: `number` is not a square number.
    """
    side = round(max(number, 0) ** .5)
    if side < 1 or side ** 2 != number:
        raise ValueError(f'{name}: expected a square number, such as 49, got {number}.')
    return side


def build_mixer(cfg: dict, **defaults) -> TokenMixer:
    """Build a mixer in the scope `mmflatten`, whatever the default scope is.

    Args:
        cfg: `dict(type='FocusedLinearAttention', ...)`. Types of other scopes need their prefix, such as
            `'myproject.MyAttention'`.
        defaults: arguments set by the backbone; those in `cfg` override them.

    Raises:
        ValueError: `cfg` is not a dict with a type.
    """
    if not isinstance(cfg, Mapping) or 'type' not in cfg:
        raise ValueError("mixer: expected a dict with a type, such as dict(type='FocusedLinearAttention'), "
                         f'got {cfg!r}.')
    return MODELS.build({**defaults, **cfg, '_scope_': 'mmflatten'})
