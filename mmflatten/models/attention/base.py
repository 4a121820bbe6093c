"""Base class of token mixers: projections around an attention operator."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping

from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.attention.local_term import LocalTerm
from mmflatten.models.attention.maps import Maps
from mmflatten.models.layers import (
    FullRangeLinear,
    Linear,
    LinearWithoutKeyBias,
    join_prefix,
    map_shape,
    map_to_tokens,
    pad_to_multiple,
    split_prefix,
    tokens_to_map,
)
from mmflatten.ops import merge_heads, split_heads
from mmflatten.registry import MODELS


class TokenMixer(BaseModule):
    """Multi-head attention without the attention operator.

    Subclasses implement `attend`, which maps projected queries, keys and values to the output. One
    that assigns a `ValueConv` to `self.lepe` adds a depthwise convolution of the values to it.

    Args:
        embed_dims: channels `C`.
        num_heads: number of heads `h`; must divide `C`.
        grid_size: `(H, W)` of the keys' map in pre-training, for position tables.
        qkv_bias: use a bias in the projections of queries, keys and values.
        sr_ratio: factor by which each side of the keys' map is reduced (PVT).
        key_bias: False leaves out the bias of the keys alone (DINOv3).
        rotate: rotates queries and keys by their positions, `(B, N, C), (H, W) -> (B, N, C)`,
            before `attend`, which applies its feature map to the result (DINOv3). A window is a map
            of its own.
    """

    splits_heads = True
    """True if `attend` takes and returns `(B, h, N, d)`; False for `(B, N, C)`."""

    has_logits = False
    """True if masks may differ between queries, as in shifted windows; padding is then attended by
    default."""

    extra_inputs: tuple[str, ...] = ()
    """Further inputs of `attend` and `finish`, which `maps.extra` holds: 'C' for a projection of
    the input, such as a gate, 'd' for one as wide as a head, and 'x', which comes last, for the
    input itself."""

    reads_residual_in_stripes = False
    """True if in `CrossShapedAttention` the extra input 'x' is that of the residual branch, before
    its norm."""

    lepe: nn.Module | None

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        qkv_bias: bool = True,
        sr_ratio: int = 1,
        key_bias: bool = True,
        rotate: Callable[[Tensor, tuple[int, int]], Tensor] | None = None,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(init_cfg)
        check_heads(embed_dims, num_heads)
        if sr_ratio < 1:
            raise ValueError(f'sr_ratio: expected at least 1, got {sr_ratio}.')
        self.num_heads = num_heads
        width = {'C': embed_dims, 'd': embed_dims // num_heads}
        self.widths = [embed_dims] * 3 + [width[kind] for kind in self.extra_inputs if kind != 'x']
        project = Linear if key_bias else LinearWithoutKeyBias
        self.qkv: Linear | None = project(embed_dims, sum(self.widths), bias=qkv_bias)
        self.rotate = rotate
        self.reduction = SpatialReduction(embed_dims, sr_ratio) if sr_ratio > 1 else None
        self.lepe = None
        # products in `finish` can exceed float16
        self.proj: nn.Module = FullRangeLinear(embed_dims, embed_dims)

    def init_weights(self) -> None:
        super().init_weights()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights that a subclass initialises itself; called by its constructor, and by
        `init_weights`.
        """

    def forward(self, x: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None) -> Tensor:
        """Mix the tokens of a map.

        Args:
            x: tokens `(B, N, C)`. `N` exceeds `H * W` by the number of prefix tokens, such as a
                class token.
            hw_shape: `(H, W)`.
            mask: boolean `(nW, N or 1, N)`, true for keys that a query may attend to; `B` is a
                multiple of `nW`.

        Returns:
            `(B, N, C)`.

        Raises:
            ValueError: a mask is given and keys are reduced.
        """
        if mask is not None and self.reduction is not None:
            raise ValueError(
                'sr_ratio: expected 1 in windows that mask padding, because reduced keys mix'
                f' tokens with padding, got {self.reduction.sr_ratio}.'
            )
        q, k, v, maps = self.projections(x, hw_shape, mask)
        if self.rotate is not None:
            q, k = self.rotate(q, maps.hw), self.rotate(k, maps.kv_hw)
        if self.splits_heads:
            q_BhNd, k_BhMd, v_BhMd = (split_heads(part, self.num_heads) for part in (q, k, v))
            y_BNC = merge_heads(self.attend(q_BhNd, k_BhMd, v_BhMd, maps))
        else:
            y_BNC = self.attend(q, k, v, maps)
        if self.lepe is not None:
            y_BNC = y_BNC + self.lepe(v, maps)
        return self.proj(self.finish(y_BNC, maps))

    @abstractmethod
    def attend(self, q: Tensor, k: Tensor, v: Tensor, maps: Maps) -> Tensor:
        """The attention operator.

        Args:
            q: queries `(B, h, N, d)`, or with `splits_heads = False` those that `projections`
                returns, `(B, N, C)`.
            k: keys of `M` tokens.
            v: values of the same tokens.
            maps: shapes of the maps, mask, prefix tokens and further inputs.

        Returns:
            `(B, h, N, d)`, or `(B, N, C)` with `splits_heads = False`, in the order of the input.
        """

    def finish(self, y_BNC: Tensor, maps: Maps) -> Tensor:
        """Transform attention plus local term before the last projection, for example multiply it
        by a gate.
        """
        return y_BNC

    def local_terms(self) -> dict[str, nn.Module]:
        """Convolutions of the values that are added to the attention, by name."""
        return {
            name: module for name, module in self.named_children() if isinstance(module, LocalTerm)
        }

    def projections(
        self, x: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Maps]:
        """Project the input.

        Returns:
            Queries `(B, N, C)`, keys and values `(B, M, C)`, and the maps for `attend`.
        """
        H, W = hw_shape
        kv_hw = (H, W)
        C = x.shape[-1]
        prefix = x.shape[1] - H * W
        if self.qkv is None:
            q, k, v, *extra = x.unbind(2)
            return q, k, v, Maps((H, W), kv_hw, mask, prefix, tuple(extra))
        if self.reduction is None:
            q, k, v, *extra = self.qkv(x).split(self.widths, dim=-1)
        else:
            reduced, kv_hw = self.reduction(x, hw_shape)
            q_part, kv_part, *extra_parts = self.qkv.parts([C, 2 * C, *self.widths[3:]])
            q, *extra = (Linear.project(x, *part) for part in (q_part, *extra_parts))
            k, v = Linear.project(reduced, *kv_part).chunk(2, dim=-1)
        if 'x' in self.extra_inputs:
            extra.append(x)
        return q, k, v, Maps((H, W), kv_hw, mask, prefix, tuple(extra))

    def remove_projections(self) -> None:
        """Let another module project: the input is then `(B, N, P, C)`, the parts that
        `projections` returns.

        Raises:
            ValueError: the mixer reduces keys, or projects in a way of its own.
        """
        C = self.widths[0]
        has_common_input = type(self).projections is TokenMixer.projections
        has_common_widths = {*self.widths, getattr(self.proj, 'in_features', None)} == {C}
        if not (has_common_input and has_common_widths) or self.reduction is not None:
            raise ValueError(
                'mixer: expected one with the projections of TokenMixer and sr_ratio=1, '
                f'got {type(self).__name__}. Use it outside CrossShapedAttention.'
            )
        self.qkv = None
        self.proj = nn.Identity()


class SpatialReduction(BaseModule):
    """PVT's reduction of keys and values: a strided convolution on the map of the tokens, followed
    by a norm.

    Prefix tokens, such as a class token, are only normalised and stay before the map. Source:
    Pyramid Vision Transformer (ICCV 2021), sec. 3.3.
    """

    def __init__(self, embed_dims: int, sr_ratio: int) -> None:
        super().__init__()
        self.sr_ratio = sr_ratio
        self.conv = nn.Conv2d(embed_dims, embed_dims, sr_ratio, sr_ratio)
        self.norm = nn.LayerNorm(embed_dims)

    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> tuple[Tensor, tuple[int, int]]:
        """Reduced tokens and the shape of their map, which is first zero-padded to a multiple of
        `sr_ratio`.
        """
        prefix, tokens = split_prefix(x_BNC, hw_shape)
        x_BCHW = pad_to_multiple(tokens_to_map(tokens, hw_shape), (self.sr_ratio, self.sr_ratio))
        x_BCHW = self.conv(x_BCHW)
        reduced = self.norm(join_prefix(prefix, map_to_tokens(x_BCHW)))
        return reduced, map_shape(x_BCHW)


def check_heads(embed_dims: int, num_heads: int) -> None:
    """Raise ValueError unless the heads divide the channels."""
    if num_heads < 1 or embed_dims % num_heads:
        raise ValueError(
            f'num_heads: expected a divisor of embed_dims ({embed_dims}), got {num_heads}.'
        )


def square_side(name: str, number: int) -> int:
    """Side of a square grid of `number` cells.

    Raises:
        ValueError: `number` is not a square number.
    """
    side = round(max(number, 0) ** 0.5)
    if side < 1 or side**2 != number:
        raise ValueError(f'{name}: expected a square number, such as 49, got {number}.')
    return side


def build_mixer(cfg: dict, **defaults) -> TokenMixer:
    """Build a mixer in the scope `mmflatten`, whatever the default scope is.

    Args:
        cfg: `dict(type='FocusedLinearAttention', ...)`. Types of other scopes need their prefix,
            such as `'myproject.MyAttention'`.
        defaults: arguments set by the backbone; those in `cfg` override them.

    Raises:
        ValueError: `cfg` is not a dict with a type.
    """
    if not isinstance(cfg, Mapping) or 'type' not in cfg:
        raise ValueError(
            "mixer: expected a dict with a type, such as dict(type='FocusedLinearAttention'), "
            f'got {cfg!r}.'
        )
    return MODELS.build({**defaults, **cfg, '_scope_': 'mmflatten'})
