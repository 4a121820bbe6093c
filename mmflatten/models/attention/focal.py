"""Focal attention: fine keys near a window, pooled keys far from it."""

from __future__ import annotations

from itertools import product

import torch
from einops import rearrange
from mmengine.model import ModuleList
from torch import Tensor

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps
from mmflatten.models.layers import (
    NeighborBias,
    PooledBias,
    RelativePositionBias,
    WindowGrid,
    WindowPool,
    join_prefix,
    split_prefix,
    sub_windows,
)
from mmflatten.ops import (
    focal_attention,
    merge_heads,
    pooled_keys,
    softmax_attention,
    split_heads,
    visible_keys,
    window_order,
    window_positions,
)
from mmflatten.registry import MODELS


@MODELS.register_module()
class FocalAttention(TokenMixer):
    """Attention of each window to itself, to fine neighbours and to pooled windows around it, in
    one softmax.

    Source: Focal Transformer, sec. 3.2, and the official code (version 1). The defaults keep its
    quirks: neighbours wrap around the border, zero padding is attended, neighbours have a free bias
    for every query and key, 12 of them count twice, and pooled tokens have a bias per offset
    instead of one for all queries. Pooled tokens outside the map are excluded here; the official
    code gives them a logit of -100.

    A map whose size is not a multiple of the window is zero-padded at the right and the bottom.
    Prefix tokens are keys of every window, and attend to each other and to the map.

    Args:
        grid_size: map size in pre-training. If an axis is no longer than the window, the window
            shrinks to that axis and, as in the official code, there are no neighbours and no shift.
        window_size: side of a window.
        focal_window: side of the region of pooled tokens, in windows; odd.
        focal_levels: 1 for fine tokens only, 2 adds pooled windows, 3 adds pooled half windows.
        expand_size: distance by which neighbours extend beyond the window.
        expand_always: use neighbours whatever the `grid_size`.
        local: attend to neighbours (Figure 5).
        global_: attend to pooled tokens (Figure 5).
        shift: roll the map by half a window.
        neighbor_boundary: 'wrap' lets windows at the border attend to neighbours on the opposite
            side; 'mask' excludes these, and neighbours and pooled tokens that contain only padding.
        mask_padding: exclude padding from all keys.
        bias_by_query: as `by_query` of `PooledBias`.

    Raises:
        ValueError: an argument is out of range, or `forward` receives a mask.
    """

    splits_heads = False  # windows are cut from all heads at once

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        window_size: int = 7,
        focal_window: int = 7,
        focal_levels: int = 2,
        expand_size: int = 3,
        expand_always: bool = False,
        local: bool = True,
        global_: bool = True,
        shift: bool = False,
        neighbor_boundary: str = 'wrap',
        mask_padding: bool = False,
        bias_by_query: bool = True,
        sr_ratio: int = 1,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, sr_ratio=sr_ratio, **kwargs)
        window = min(window_size, *grid_size)
        whole = min(grid_size) <= window_size
        _check(
            window=window,
            focal_window=focal_window,
            focal_levels=focal_levels,
            expand_size=expand_size,
            neighbor_boundary=neighbor_boundary,
            sr_ratio=sr_ratio,
        )
        self.window_size = window
        self.focal_window = focal_window
        self.shift = window // 2 if shift and not whole else 0
        self.distances = (self.shift, self.shift) if self.shift else None
        self.wrap = neighbor_boundary == 'wrap'
        self.mask_padding = mask_padding
        if self.rotate is not None:
            raise ValueError(
                'rotate: FocalAttention lists tokens by windows and cannot rotate them by position,'
                ' got a rotation. Use an architecture with a table of positions.'
            )
        self.relative_position_bias = RelativePositionBias((window, window), num_heads, std=0.0)
        expand = expand_size if local and (expand_always or not whole) else 0
        self.neighbor_bias = NeighborBias(num_heads, window, expand) if expand else None
        levels = range(focal_levels - 1) if global_ else ()
        self.pools = ModuleList(WindowPool(window // 2**k) for k in levels)
        self.pooled_bias = ModuleList(
            PooledBias(num_heads, window, focal_window + 2**k - 1, bias_by_query) for k in levels
        )
        offsets = torch.tensor(list(product(range(window), repeat=2)))
        self.register_buffer('window_offsets', offsets, persistent=False)

    def projections(
        self, x: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Maps]:
        """Project the tokens in the order of `listed`, because windows are pooled before the
        projection.

        Returns:
            Queries, keys and values `(B, S, C)`, as `attend` takes them, and the maps.
        """
        if mask is not None:
            raise ValueError(
                'mask: FocalAttention already runs in windows and takes no mask, got one. Remove '
                'linear_window.'
            )
        assert self.qkv is not None
        q, k, v = self.qkv(self.listed(x, hw_shape)).chunk(3, dim=-1)
        return q, k, v, Maps(hw_shape, hw_shape, prefix=x.shape[1] - hw_shape[0] * hw_shape[1])

    def listed(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        """Tokens in the order of the keys `(B, S, C)`: window by window, pooled tokens level by
        level, prefix tokens.

        Windows include padding.
        """
        grid = self._grid(hw_shape)
        prefix, tokens = split_prefix(x_BNC, hw_shape)
        x_BHWC = grid.pad_and_roll(tokens)
        windows = grid.partition(x_BHWC)
        parts = [windows]
        for level, pool in enumerate(self.pools):
            cells = windows
            if level:
                cells = sub_windows(x_BHWC, grid.shape, level, grid.side // 2**level)
            parts.append(pool(rearrange(cells, 'B (W n) C -> B W n C', n=pool.weight.shape[1])))
        return torch.cat((*parts, prefix), dim=1)

    def attend(self, q_BSC: Tensor, k_BSC: Tensor, v_BSC: Tensor, maps: Maps) -> Tensor:
        """The attention operator, `(B, N, C)`, from queries, keys and values in the order of
        `listed`.

        The order of the tokens would cost two copies of the queries. Queries of pooled tokens are
        ignored.
        """
        grid = self._grid(maps.hw)
        windows = q_BSC[:, : grid.num_tokens]
        prefix = q_BSC[:, q_BSC.shape[1] - maps.prefix :]
        q, k, v = (split_heads(x, self.num_heads) for x in (windows, k_BSC, v_BSC))
        keys, visible = self._keys(grid, maps.prefix)
        y_BhNd = focal_attention(q, k, v, keys, bias_hnM=self._bias(maps.prefix), mask=visible)
        y_BNC = grid.reverse(merge_heads(y_BhNd))
        if not maps.prefix:
            return y_BNC
        return join_prefix(self._attend_from_prefix(prefix, k, v, grid), y_BNC)

    def _grid(self, hw_shape: tuple[int, int]) -> WindowGrid:
        return WindowGrid(hw_shape, self.window_size, self.distances)

    def _bias(self, num_prefix: int) -> Tensor:
        """The bias of all keys in the order of `_keys`, `(heads, n, M)`."""
        parts = [self.relative_position_bias()[0]]
        if self.neighbor_bias is not None:
            parts.append(self.neighbor_bias())
        parts += [bias() for bias in self.pooled_bias]
        if num_prefix:
            parts.append(parts[0].new_zeros(*parts[0].shape[:2], num_prefix))
        return torch.cat(parts, dim=-1)

    def _keys(self, grid: WindowGrid, num_prefix: int) -> tuple[Tensor, Tensor | None]:
        """Keys of every window as indices into `listed`, `(W, M)`, and a mask of those that a query
        may attend.

        The mask is None if every query may attend all of them.
        """
        parts = self._fine_keys(grid)
        first = grid.num_tokens
        number = grid.shape[0] * grid.shape[1]
        for level in range(len(self.pools)):
            index, visible = self._pooled_keys(grid, level)
            parts.append((index + first, visible))
            first += number * 4**level
        if num_prefix:
            index = first + torch.arange(num_prefix, device=self.window_offsets.device)
            parts.append((index.expand(number, -1), None))
        keys = torch.cat([index for index, _ in parts], dim=1)
        if all(visible is None for _, visible in parts):
            return keys, None
        masks = []
        for index, visible in parts:
            if visible is None:
                visible = torch.ones_like(index, dtype=torch.bool)[:, None]
            masks.append(visible)
        rows = max(mask.shape[1] for mask in masks)
        return keys, torch.cat([mask.expand(-1, rows, -1) for mask in masks], dim=-1)

    def _fine_keys(self, grid: WindowGrid) -> list[tuple[Tensor, Tensor | None]]:
        """Keys and masks of the window itself and of its neighbours."""
        queries = window_positions(grid.shape, grid.side, self.window_offsets)
        padding = not (self.mask_padding and grid.has_padding)
        kinds = [(queries, not self.shift, padding)]
        if self.neighbor_bias is not None:
            neighbors = window_positions(grid.shape, grid.side, self.neighbor_bias.offsets)
            kinds.append((neighbors, self.wrap, self.wrap and padding))
        parts: list[tuple[Tensor, Tensor | None]] = []
        for keys, wrap, padding in kinds:
            visible = None
            if not (wrap and padding):
                visible = visible_keys(
                    keys,
                    queries,
                    hw_shape=grid.hw,
                    map_size=grid.padded_hw,
                    shift=self.shift,
                    wrap=wrap,
                    padding=padding,
                )
            parts.append((window_order(keys, grid.shape, grid.side), visible))
        return parts

    def _pooled_keys(self, grid: WindowGrid, level: int) -> tuple[Tensor, Tensor | None]:
        """Keys of a pooling level as indices into the pooled map, and their mask."""
        device = self.window_offsets.device
        index, visible = pooled_keys(
            grid.shape, level=level, focal_window=self.focal_window, device=device
        )
        if grid.has_padding and (self.mask_padding or not self.wrap):
            side = grid.side // 2**level
            real = sub_windows(grid.real(device), grid.shape, level, side)
            visible = visible & real.view(-1, side**2).any(-1)[index]
        elif self.focal_window == 1:
            return index, None
        return index, visible[:, None]

    def _attend_from_prefix(
        self, q_BPC: Tensor, k_BhSd: Tensor, v_BhSd: Tensor, grid: WindowGrid
    ) -> Tensor:
        """Attention of the prefix tokens to the real fine tokens and to themselves, `(B, P, C)`."""
        N = grid.num_tokens
        P = q_BPC.shape[1]
        S = k_BhSd.shape[2]
        k, v = (torch.cat((x[:, :, :N], x[:, :, S - P :]), dim=2) for x in (k_BhSd, v_BhSd))
        bias = None
        if grid.has_padding:
            padding_N = ~grid.partition(grid.real(k.device))[0, :, 0]
            bias = torch.zeros(1, 1, P, N + P, device=k.device, dtype=k.dtype)
            bias[..., :N].masked_fill_(padding_N, -torch.inf)
        return merge_heads(softmax_attention(split_heads(q_BPC, self.num_heads), k, v, bias=bias))


def _check(
    *,
    window: int,
    focal_window: int,
    focal_levels: int,
    expand_size: int,
    neighbor_boundary: str,
    sr_ratio: int,
) -> None:
    if window < 1:
        raise ValueError(f'window_size: expected at least 1, got {window}.')
    if focal_window < 1 or focal_window % 2 == 0:
        raise ValueError(f'focal_window: expected an odd number of at least 1, got {focal_window}.')
    if focal_levels < 1 or 2 ** max(focal_levels - 2, 0) > window:
        raise ValueError(
            'focal_levels: expected at least 1, and sub-windows of at least one token in a window'
            f' of {window}, got {focal_levels}.'
        )
    if expand_size < 0:
        raise ValueError(f'expand_size: expected at least 0, got {expand_size}.')
    if neighbor_boundary not in ('wrap', 'mask'):
        raise ValueError(
            f"neighbor_boundary: expected 'wrap' or 'mask', got {neighbor_boundary!r}."
        )
    if sr_ratio > 1:
        raise ValueError(
            f'sr_ratio: focal attention does not reduce keys, got {sr_ratio}. Set it to 1.'
        )
