"""Which keys a window of focal attention sees, and how tables of their biases follow another window."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.ops.sizes import operand


def neighbor_offsets(window: int, expand: int) -> list[tuple[int, int]]:
    """Neighbours of a window as Focal Transformer lists them, `(row, column)` from the window's first token.

    The window is moved by `expand` along both diagonals, and what it then covers beside itself are neighbours. With
    7 and 3 these are 132; the 12 straight above, below, left and right of the middle are listed twice.
    """
    return [(y + dy, x + dx) for dy in (expand, -expand) for dx in (expand, -expand)
            for y in range(window) for x in range(window)
            if not (0 <= y + dy < window and 0 <= x + dx < window)]


def resize_neighbor_bias(table_1hnK: Tensor, window: int, expand: int, new_window: int, new_expand: int) -> Tensor:
    """Resize a free table of queries and neighbours from one window and reach to another, bilinearly.

    Each of the four moved windows is cut where it leaves the window itself; the pieces are resized one by one, so that
    a neighbour beside the window stays beside it. A window moved by its whole side has none straight beside it; where
    the new one has, those start with 0.

    Args:
        table_1hnK: `(1, heads, window ** 2, K)`, neighbours in the order of `neighbor_offsets`.

    Returns:
        `(1, heads, new_window ** 2, K')`.
    """
    inside, new_inside = max(window - expand, 0), max(new_window - new_expand, 0)
    table = table_1hnK.transpose(-2, -1).flatten(1, 2).unflatten(-1, (window, window))
    table = F.interpolate(table, size=(new_window, new_window), mode='bilinear').flatten(2)
    table = table.unflatten(1, (-1, 4, table_1hnK.shape[-1] // 4)).permute(2, 0, 1, 4, 3)
    copies = []
    for copy, (down, right) in zip(table, ((1, 1), (1, 0), (0, 1), (0, 0))):
        grid = copy.new_zeros(*copy.shape[:3], window, window)
        seen = _outside(window, inside, down, right)
        grid[..., seen] = copy
        rows, cols = (_halves(inside, window, new_inside, new_window, side) for side in (down, right))
        bands = [torch.cat([_resize(grid[..., y, x], (height, width)) for x, width in cols], dim=-1)
                 for y, height in rows]
        copies.append(torch.cat(bands, dim=-2)[..., _outside(new_window, new_inside, down, right)])
    return torch.cat(copies, dim=-1)


def _outside(window: int, inside: int, down: int, right: int) -> Tensor:
    """Which tokens of a window that was moved down or up, right or left, it did not cover before."""
    far = torch.arange(window) >= inside
    rows, cols = (far if forward else far.flip(0) for forward in (down, right))
    return rows[:, None] | cols


def _halves(inside: int, window: int, new_inside: int, new_window: int, forward: int) -> list[tuple[slice, int]]:
    """The part of an axis that stays inside and the part that leaves it: where it lies, and its new length."""
    kept, left = (inside, new_inside), (window - inside, new_window - new_inside)
    first, second = (kept, left) if forward else (left, kept)
    return [(slice(0, first[0]), first[1]), (slice(first[0], window), second[1])]


def _resize(x: Tensor, size: tuple[int, int]) -> Tensor:
    if 0 in size or 0 in x.shape:
        return x.new_zeros(*x.shape[:-2], *size)
    return F.interpolate(x.flatten(0, -3)[:, None], size=size, mode='bilinear').view(*x.shape[:-2], *size)


def window_positions(grid: tuple[int, int], window: int, offsets_K2: Tensor) -> Tensor:
    """Map positions of tokens given by their offsets from the first token of every window.

    Args:
        grid: windows `(rows, columns)`.
        window: side of a window.
        offsets_K2: `(row, column)`, also outside of the window.

    Returns:
        `(W, K, 2)`, windows in row-major order; beyond the border where the offsets lead there.
    """
    rows, cols = (torch.arange(side, device=offsets_K2.device) * window for side in grid)
    origins = torch.stack((rows[:, None].expand(grid), cols.expand(grid)), dim=-1)
    return origins.flatten(0, 1)[:, None] + offsets_K2


def window_order(positions_WK2: Tensor, grid: tuple[int, int], window: int) -> Tensor:
    """Index of each position in a list of tokens window after window; positions beyond the border wrap around."""
    y = positions_WK2[..., 0] % operand(grid[0] * window)
    x = positions_WK2[..., 1] % operand(grid[1] * window)
    return (y // window * grid[1] + x // window) * window ** 2 + y % window * window + x % window


def visible_keys(keys_WK2: Tensor, queries_Wn2: Tensor, hw_shape: tuple[int, int], map_size: tuple[int, int],
                 shift: int, *, wrap: bool, padding: bool) -> Tensor:
    """Which keys, given by positions on a padded and rolled map, a query may attend.

    Args:
        keys_WK2: positions of the keys, beyond the border where they wrap around.
        queries_Wn2: positions of the queries.
        hw_shape: `(H, W)` before padding.
        map_size: `(H, W)` after padding.
        shift: how far the map was rolled up and left.
        wrap: whether keys from the opposite side of the map are seen.
        padding: whether padding is seen.

    Returns:
        Boolean `(W, n, K)`, or `(W, 1, K)` where all queries of a window see the same.
    """
    def real(positions: Tensor) -> Tensor:
        y, x = ((positions[..., axis] + shift) % operand(map_size[axis]) < hw_shape[axis] for axis in (0, 1))
        return y & x

    def turns(positions: Tensor) -> Tensor:
        """How often the way from the map to each position crosses the border, `(W, K, 2)`."""
        return torch.stack([torch.div(positions[..., axis] + shift, operand(map_size[axis]), rounding_mode='floor')
                            for axis in (0, 1)], dim=-1)

    visible = torch.ones_like(keys_WK2[:, None, :, 0], dtype=torch.bool)
    if not wrap:
        # Without a shift no query has crossed the border.
        queries = turns(queries_Wn2 if shift else queries_Wn2[:, :1])
        visible = (turns(keys_WK2)[:, None] == queries[:, :, None]).all(-1)
        if shift:
            # The queries of padding are cropped; they see all, so that no row is left without a key.
            visible = visible | ~real(queries_Wn2)[..., None]
    return visible if padding else visible & real(keys_WK2)[:, None]


def pooled_keys(grid: tuple[int, int], level: int, focal_window: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The pooled tokens around every window.

    Args:
        grid: windows `(rows, columns)`; the pooled map has `2 ** level` tokens for each window along an axis.
        level: 0 pools whole windows.
        focal_window: side of the region, in windows at level 0; odd.
        device: where the result is needed.

    Returns:
        Indices into the pooled map in row-major order, and whether they lie on it; both `(W, K)` with
        `K = (focal_window + 2 ** level - 1) ** 2`.
    """
    step = 2 ** level
    around = torch.arange(focal_window + step - 1, device=device) - focal_window // 2
    (rows, row_inside), (cols, col_inside) = (_along(side, step, around) for side in grid)
    index = rows[:, None, :, None] * (grid[1] * step) + cols[None, :, None, :]
    inside = row_inside[:, None, :, None] & col_inside[None, :, None, :]
    return index.flatten(2).flatten(0, 1), inside.flatten(2).flatten(0, 1)


def _along(windows: int, step: int, around: Tensor) -> tuple[Tensor, Tensor]:
    """Positions on one axis of a pooled map and whether they lie on it, `(windows, len(around))`."""
    positions = torch.arange(windows, device=around.device)[:, None] * step + around
    last = windows * step - 1
    return positions.clamp(0, last), (positions >= 0) & (positions <= last)
