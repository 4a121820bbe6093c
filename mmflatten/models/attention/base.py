"""The skeleton of a token mixer: projections around an operator."""
from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.layers import Linear, TokenConv, linear, map_to_tokens, split_prefix, tokens_to_map
from mmflatten.registry import MODELS


class SpatialReduction(BaseModule):
    """PVT's shortening of keys and values: strided convolution and norm on the map of the tokens.

    Tokens before the map, such as a class token, are normalised alone and stay before it.
    """

    def __init__(self, embed_dims: int, sr_ratio: int) -> None:
        super().__init__()
        self.sr_ratio = sr_ratio
        self.conv = nn.Conv2d(embed_dims, embed_dims, sr_ratio, sr_ratio)
        self.norm = nn.LayerNorm(embed_dims)

    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> tuple[Tensor, tuple[int, int]]:
        prefix, tokens = split_prefix(x_BNC, hw_shape)
        x_BCHW = tokens_to_map(tokens, hw_shape)
        pad = [-side % self.sr_ratio for side in hw_shape]
        if any(pad):
            x_BCHW = F.pad(x_BCHW, (0, pad[1], 0, pad[0]))
        x_BCHW = self.conv(x_BCHW)
        tokens = map_to_tokens(x_BCHW)
        tokens = torch.cat((prefix, tokens), dim=1) if prefix.shape[1] else tokens
        return self.norm(tokens), tuple(x_BCHW.shape[-2:])


class TokenMixer(BaseModule):
    """Multi-head attention but for its heart: a subclass says in `attend` what happens between the projections.

    Args:
        embed_dims: channels `C`.
        num_heads: heads `h`; must divide `C`.
        grid_size: `(H, W)` of the keys' map in pre-training, for positional tables.
        qkv_bias: whether the projections of query, key and value have a bias.
        sr_ratio: keys and values are taken from a map this much smaller on a side (PVT).
        lepe_kernel: size of a depthwise convolution of the values that is added to the result (CSwin's locally
            enhanced positional encoding); 0 for none.
        project: False leaves out all projections: the input is then `(B, N, 3, C)`, query, key and value. So a
            mixer can work on a part of the channels of another one.
    """

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], *, qkv_bias: bool = True,
                 sr_ratio: int = 1, lepe_kernel: int = 0, project: bool = True,
                 init_cfg: dict | None = None) -> None:
        super().__init__(init_cfg)
        if num_heads < 1 or embed_dims % num_heads:
            raise ValueError(f'embed_dims ({embed_dims}) must be divisible by num_heads ({num_heads})')
        if sr_ratio < 1 or (sr_ratio > 1 and not project):
            raise ValueError(f'sr_ratio ({sr_ratio}) must be at least 1, and 1 where another mixer projects the tokens')
        self.num_heads = num_heads
        self.qkv = Linear(embed_dims, 3 * embed_dims, bias=qkv_bias) if project else None
        self.reduction = SpatialReduction(embed_dims, sr_ratio) if sr_ratio > 1 else None
        self.lepe = TokenConv(embed_dims, lepe_kernel) if lepe_kernel else None
        self.proj = Linear(embed_dims, embed_dims) if project else nn.Identity()

    def forward(self, x: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None) -> Tensor:
        """Mix the tokens of a map.

        Args:
            x: tokens `(B, N, C)`, or `(B, N, 3, C)` without projections. `N` exceeds `H * W` by the number of tokens
                before the map, such as a class token.
            hw_shape: `(H, W)`.
            mask: which keys a query may attend, boolean `(nW, N or 1, N)` where `B` is a multiple of `nW`; windows
                pass it.

        Returns:
            `(B, N, C)`.

        Raises:
            ValueError: a mask for keys that are reduced.
        """
        if mask is not None and self.reduction is not None:
            raise ValueError(f'sr_ratio ({self.reduction.sr_ratio}) must be 1 in windows that mask padding: reduced '
                             'keys mix it with tokens')
        q_BNC, k_BMC, v_BMC, kv_shape = self._project(x, hw_shape)
        y_BNC = self.attend(q_BNC, k_BMC, v_BMC, hw_shape, kv_shape, mask)
        if self.lepe is not None:
            y_BNC = y_BNC + self.lepe(self.values_at_queries(v_BMC, hw_shape, kv_shape, mask), hw_shape)
        return self.proj(y_BNC)

    @abstractmethod
    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, hw_shape: tuple[int, int],
               kv_shape: tuple[int, int], mask: Tensor | None) -> Tensor:
        """The attention itself: `(B, N, C)` from queries `(B, N, C)` and keys and values `(B, M, C)`."""

    def _project(self, x: Tensor, hw_shape: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor, tuple[int, int]]:
        if self.qkv is None:
            return *x.unbind(2), hw_shape
        if self.reduction is None:
            return *self.qkv(x).chunk(3, dim=-1), hw_shape
        C = x.shape[-1]
        weight, bias = self.qkv.weight, self.qkv.bias
        reduced, kv_shape = self.reduction(x, hw_shape)
        q_BNC = linear(x, weight[:C], None if bias is None else bias[:C])
        kv = linear(reduced, weight[C:], None if bias is None else bias[C:])
        return q_BNC, *kv.chunk(2, dim=-1), kv_shape

    @staticmethod
    def values_at_queries(v_BMC: Tensor, hw_shape: tuple[int, int], kv_shape: tuple[int, int],
                          mask: Tensor | None = None) -> Tensor:
        """Values on the queries' map, for a local term: padding as zeros, reduced maps enlarged.

        Quirk kept for parity: FLatten's code enlarges by linear interpolation along the flattened map.
        """
        if mask is not None:
            v_BMC = fill_masked(v_BMC, mask, 0.)
        if tuple(kv_shape) == tuple(hw_shape):
            return v_BMC
        prefix, v_BMC = split_prefix(v_BMC, kv_shape)
        length = hw_shape[0] * hw_shape[1]
        v_BNC = F.interpolate(v_BMC.transpose(1, 2), size=length, mode='linear').transpose(1, 2)
        return torch.cat((prefix, v_BNC), dim=1) if prefix.shape[1] else v_BNC


def fill_masked(x_BMC: Tensor, mask: Tensor | None, value: float) -> Tensor:
    """Tokens that no query may attend, set to `value`: how a mixer without logits obeys the mask of its window.

    Args:
        x_BMC: tokens of windows `(B, M, C)`.
        mask: boolean `(nW, 1, M)`, or None, which changes nothing.
        value: 0 after a positive feature map, `-inf` before a softmax over tokens.

    Raises:
        ValueError: the mask differs between queries, as that of a shifted softmax window does.
    """
    if mask is None:
        return x_BMC
    if mask.shape[1] != 1:
        raise ValueError(f'mask {tuple(mask.shape)} differs between queries; a mixer without logits takes (nW, 1, M)')
    keep = mask.transpose(1, 2)
    windows = x_BMC.unflatten(0, (-1, keep.shape[0]))
    return windows.masked_fill(~keep, value).flatten(0, 1)


def build_mixer(cfg: dict, **defaults) -> TokenMixer:
    """Build a mixer from the scope `mmflatten`, whatever the default scope is.

    Args:
        cfg: `dict(type='FocusedLinearAttention', ...)`; a type of another scope is written with it.
        defaults: arguments that the backbone knows, overridden by those of `cfg`.

    Raises:
        ValueError: `cfg` is no dict with a type.
    """
    if not isinstance(cfg, Mapping) or 'type' not in cfg:
        raise ValueError(f"the mixer ({cfg!r}) must be a dict with a type, such as dict(type='FocusedLinearAttention')")
    return MODELS.build({**defaults, **cfg, '_scope_': 'mmflatten'})
