"""Focal attention: fine keys near a window, pooled keys far from it."""
from __future__ import annotations

import torch
from einops import rearrange
from mmengine.model import ModuleList
from torch import Tensor

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps
from mmflatten.models.layers import NeighborBias, PooledBias, RelativePositionBias, join_prefix, split_prefix
from mmflatten.models.layers.window_pool import WindowPool, sub_windows
from mmflatten.ops import (
    focal_attention,
    merge_heads,
    pad_and_roll,
    pooled_keys,
    roll_and_crop,
    softmax_attention,
    split_heads,
    visible_keys,
    window_order,
    window_partition,
    window_positions,
    window_reverse,
)
from mmflatten.ops.sizes import ceil_div, certain
from mmflatten.registry import MODELS


@MODELS.register_module()
class FocalAttention(TokenMixer):
    """Attention of a window to itself, to its fine neighbours and to pooled windows around it, in one softmax.

    Source: Focal Transformer, sec. 3.2, and the official code (version 1), whose quirks the defaults keep: neighbours
    wrap around the border, zero padding is attended, neighbours have a free bias for every query and key, 12 of them
    count twice, and pooled tokens have a bias per offset rather than one for all queries. Pooled tokens off the map
    are excluded here; the official code gives them -100.

    A map that is no multiple of the window is zero-padded at the right and the bottom. Prefix tokens are keys of
    every window, and attend each other and the map.

    Args:
        grid_size: map in pre-training. One that is no larger than the window in an axis shrinks the window to it and,
            as in the official code, takes neighbours and shift away: its whole axis is in the window.
        window_size: side of a window.
        focal_window: side of the region of pooled tokens, in windows; odd.
        focal_levels: 1 for fine tokens alone, 2 for whole windows pooled too, 3 for half windows as well.
        expand_size: how far neighbours reach beyond the window.
        expand_always: have neighbours whatever `grid_size` says.
        local: whether neighbours are attended (Figure 5).
        global_: whether pooled tokens are attended (Figure 5).
        shift: roll the map by half a window.
        neighbor_boundary: 'wrap' lets windows at the border see neighbours from the opposite side; 'mask' excludes
            these, and neighbours and pooled tokens that are padding alone.
        mask_padding: exclude padding from all keys.
    """

    splits_heads = False  # windows are cut from all heads at once

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], *, window_size: int = 7,
                 focal_window: int = 7, focal_levels: int = 2, expand_size: int = 3, expand_always: bool = False,
                 local: bool = True, global_: bool = True, shift: bool = False, neighbor_boundary: str = 'wrap',
                 mask_padding: bool = False, sr_ratio: int = 1, **kwargs) -> None:
        super().__init__(embed_dims, num_heads, grid_size, sr_ratio=sr_ratio, **kwargs)
        window = min(window_size, *grid_size)
        whole = min(grid_size) <= window_size
        _check(window, focal_window, focal_levels, expand_size, neighbor_boundary, sr_ratio)
        self.window_size = window
        self.focal_window = focal_window
        self.shift = window // 2 if shift and not whole else 0
        self.distances = (self.shift, self.shift) if self.shift else None  # as maps are rolled
        self.wrap = neighbor_boundary == 'wrap'
        self.mask_padding = mask_padding
        self.relative_position_bias = RelativePositionBias((window, window), num_heads, std=0.)
        expand = expand_size if local and (expand_always or not whole) else 0
        self.neighbor_bias = NeighborBias(num_heads, window, expand) if expand else None
        levels = range(focal_levels - 1) if global_ else ()
        self.pools = ModuleList(WindowPool(window // 2 ** k) for k in levels)
        self.pooled_bias = ModuleList(PooledBias(num_heads, window, focal_window + 2 ** k - 1) for k in levels)
        own = [(y, x) for y in range(window) for x in range(window)]
        self.register_buffer('own_offsets', torch.tensor(own), persistent=False)

    def forward(self, x: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            raise ValueError('FocalAttention has windows of its own and takes no mask of another window around it; '
                             'give it the whole map (no linear_window)')
        source = self.listed(x.flatten(2), hw_shape)
        qkv = source if self.qkv is None else self.qkv(source)
        q, k, v = qkv.chunk(3, dim=-1)
        prefix = x.shape[1] - hw_shape[0] * hw_shape[1]
        y_BNC = self.attend_listed(q, k, v, hw_shape, prefix)
        if self.lepe is not None:
            own = self._to_map(v[:, :self._num_fine(hw_shape)], hw_shape)
            y_BNC = y_BNC + self.lepe(join_prefix(v[:, v.shape[1] - prefix:], own), hw_shape)
        return self.proj(y_BNC)

    def listed(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        """Tokens in the order of the keys: window after window, pooled ones level after level, prefix tokens."""
        prefix, tokens = split_prefix(x_BNC, hw_shape)
        window, grid = self.window_size, self._grid(hw_shape)
        x_BHWC = rearrange(tokens, 'B (H W) C -> B H W C', H=hw_shape[0])
        x_BHWC = pad_and_roll(x_BHWC, self._padded(hw_shape), self.distances)
        windows = window_partition(x_BHWC, (window, window))
        windows = rearrange(windows, '(B W) n C -> B (W n) C', W=grid[0] * grid[1])
        return torch.cat((windows, *self._pool(x_BHWC, windows, grid), prefix), dim=1)

    def attend_listed(self, q: Tensor, k: Tensor, v: Tensor, hw_shape: tuple[int, int], prefix: int) -> Tensor:
        """The attention of prefix tokens and map, `(B, N, C)`, from projections of `listed`."""
        N, first = self._num_fine(hw_shape), q.shape[1] - prefix
        y_BNC = self.attend(q[:, :N], k, v, Maps(hw_shape, hw_shape, prefix=prefix))
        if prefix:
            y_BNC = join_prefix(self._attend_from_prefix(q[:, first:], k, v, N, hw_shape), y_BNC)
        return y_BNC

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, maps: Maps) -> Tensor:
        """The attention itself: `(B, H * W, C)` from queries window after window.

        Keys and values are listed in this order: tokens window after window, pooled tokens level after level, prefix
        tokens.
        """
        grid = self._grid(maps.hw)
        keys, visible = self._keys(grid, maps.hw, maps.prefix)
        q, k, v = (split_heads(x, self.num_heads) for x in (q_BNC, k_BMC, v_BMC))
        y_BhNd = focal_attention(q, k, v, keys, bias_hnM=self._bias(maps.prefix), mask=visible)
        return self._to_map(merge_heads(y_BhNd), maps.hw)

    def _grid(self, hw_shape: tuple[int, int]) -> tuple[int, int]:
        """How many windows cover the map, `(rows, columns)`."""
        return ceil_div(hw_shape[0], self.window_size), ceil_div(hw_shape[1], self.window_size)

    def _padded(self, hw_shape: tuple[int, int]) -> tuple[int, int]:
        """`(H, W)` of whole windows."""
        rows, cols = self._grid(hw_shape)
        return rows * self.window_size, cols * self.window_size

    def _num_fine(self, hw_shape: tuple[int, int]) -> int:
        """Tokens of the padded map."""
        rows, cols = self._padded(hw_shape)
        return rows * cols

    def _to_map(self, windows_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        """Window after window to row after row, without padding."""
        window = (self.window_size, self.window_size)
        windows = rearrange(windows_BNC, 'B (W n) C -> (B W) n C', n=self.window_size ** 2)
        x_BHWC = roll_and_crop(window_reverse(windows, window, self._padded(hw_shape)), hw_shape, self.distances)
        return rearrange(x_BHWC, 'B H W C -> B (H W) C')

    def _pool(self, x_BHWC: Tensor, windows_BNC: Tensor, grid: tuple[int, int]) -> list[Tensor]:
        """The pooled tokens of every level, `(B, grid * 4 ** level, C)`."""
        pooled = []
        for level, pool in enumerate(self.pools):
            parts = windows_BNC if level == 0 else sub_windows(x_BHWC, grid, level, self.window_size // 2 ** level)
            pooled.append(pool(rearrange(parts, 'B (W n) C -> B W n C', n=pool.weight.shape[1])))
        return pooled

    def _bias(self, num_prefix: int) -> Tensor:
        """The bias of all keys in the order of `_keys`, `(heads, n, M)`."""
        parts = [self.relative_position_bias()[0]]
        if self.neighbor_bias is not None:
            parts.append(self.neighbor_bias())
        parts += [bias() for bias in self.pooled_bias]
        if num_prefix:
            parts.append(parts[0].new_zeros(*parts[0].shape[:2], num_prefix))
        return torch.cat(parts, dim=-1)

    def _keys(self, grid: tuple[int, int], hw_shape: tuple[int, int],
              num_prefix: int) -> tuple[Tensor, Tensor | None]:
        """Indices of every window's keys in the list of all tokens, `(W, M)`, and which a query may attend.

        The latter is None where all are.
        """
        W, device = grid[0] * grid[1], self.own_offsets.device
        parts = self._fine_keys(grid, hw_shape)
        first = W * self.window_size ** 2
        for level in range(len(self.pools)):
            index, inside = pooled_keys(grid, level, self.focal_window, device)
            hide_padding = self._pads(hw_shape) and (self.mask_padding or not self.wrap)
            if hide_padding:
                inside = inside & self._real_pooled(hw_shape, grid, level)[index]
            all_inside = self.focal_window == 1 and not hide_padding
            parts.append((index + first, None if all_inside else inside[:, None]))
            first += W * 4 ** level
        if num_prefix:
            parts.append(((first + torch.arange(num_prefix, device=device)).expand(W, -1), None))
        keys = torch.cat([index for index, _ in parts], dim=1)
        if all(visible is None for _, visible in parts):
            return keys, None
        masks = [torch.ones_like(index, dtype=torch.bool)[:, None] if visible is None else visible
                 for index, visible in parts]
        rows = max(mask.shape[1] for mask in masks)
        return keys, torch.cat([mask.expand(-1, rows, -1) for mask in masks], dim=-1)

    def _fine_keys(self, grid: tuple[int, int], hw_shape: tuple[int, int]) -> list[tuple[Tensor, Tensor | None]]:
        """The same for the window itself and for its neighbours."""
        window = self.window_size
        map_size = (grid[0] * window, grid[1] * window)
        queries = window_positions(grid, window, self.own_offsets)
        padding = not (self.mask_padding and self._pads(hw_shape))
        kinds = [(queries, not self.shift, padding)]
        if self.neighbor_bias is not None:
            neighbors = window_positions(grid, window, self.neighbor_bias.offsets)
            kinds.append((neighbors, self.wrap, self.wrap and padding))
        return [(window_order(keys, grid, window), None if wrap and padding else
                 visible_keys(keys, queries, hw_shape, map_size, self.shift, wrap=wrap, padding=padding))
                for keys, wrap, padding in kinds]

    def _pads(self, hw_shape: tuple[int, int]) -> bool:
        return not all(certain(side % self.window_size == 0) for side in hw_shape)

    def _real_map(self, hw_shape: tuple[int, int]) -> Tensor:
        """Which tokens of the padded and rolled map are real, `(1, H, W, 1)`."""
        ones = torch.ones(1, *hw_shape, 1, dtype=torch.bool, device=self.own_offsets.device)
        return pad_and_roll(ones, self._padded(hw_shape), self.distances)

    def _real_pooled(self, hw_shape: tuple[int, int], grid: tuple[int, int], level: int) -> Tensor:
        """Which pooled tokens hold at least one real token, `(grid * 4 ** level,)`."""
        side = self.window_size // 2 ** level
        return sub_windows(self._real_map(hw_shape), grid, level, side).view(-1, side ** 2).any(-1)

    def _attend_from_prefix(self, q: Tensor, k: Tensor, v: Tensor, N: int, hw_shape: tuple[int, int]) -> Tensor:
        """What the prefix tokens, the last of the list, make of the map and themselves."""
        P = q.shape[1]
        k, v = (torch.cat((part[:, :N], part[:, part.shape[1] - P:]), dim=1) for part in (k, v))
        bias = None
        if self._pads(hw_shape):
            padding = ~window_partition(self._real_map(hw_shape), (self.window_size, self.window_size)).flatten()
            bias = torch.zeros(N + P, device=k.device, dtype=k.dtype)
            bias[:N].masked_fill_(padding, -torch.inf)
            bias = bias.expand(1, 1, P, -1)
        q, k, v = (split_heads(x, self.num_heads) for x in (q, k, v))
        return merge_heads(softmax_attention(q, k, v, bias=bias))


def _check(window: int, focal_window: int, focal_levels: int, expand_size: int, neighbor_boundary: str,
           sr_ratio: int) -> None:
    if window < 1:
        raise ValueError(f'window_size ({window}) must be at least 1')
    if focal_window < 1 or focal_window % 2 == 0:
        raise ValueError(f'focal_window ({focal_window}) must be odd and at least 1: it surrounds a window')
    if focal_levels < 1 or 2 ** max(focal_levels - 2, 0) > window:
        raise ValueError(f'focal_levels ({focal_levels}) must be at least 1, and a window of {window} must hold '
                         f'2 ** (focal_levels - 2) sub-windows on a side')
    if expand_size < 0:
        raise ValueError(f'expand_size ({expand_size}) must not be negative')
    if neighbor_boundary not in ('wrap', 'mask'):
        raise ValueError(f"neighbor_boundary ({neighbor_boundary!r}) must be 'wrap' or 'mask'")
    if sr_ratio > 1:
        raise ValueError(f'sr_ratio ({sr_ratio}) must be 1: focal attention takes its keys from the whole map')
