"""Focal attention: softmax over keys listed for each window, the lists, and resizing of the bias
tables.
"""

from __future__ import annotations

from itertools import product

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from mmflatten.ops.sizes import contiguous, operand
from mmflatten.ops.softmax.operator import softmax_attention


def focal_attention(
    q_BhNd: Tensor,
    k_BhSd: Tensor,
    v_BhSe: Tensor,
    keys_WM: Tensor,
    *,
    bias_hnM: Tensor | None = None,
    mask: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Softmax attention with one list of keys for the `n` queries of each window.

    `softmax(q_w k[keys_w]^T * scale + bias) v[keys_w]` for each window `w`. The keys may lie
    anywhere on the map. A key listed twice counts twice.
    Cost: `B h N M (d + e)` multiply-accumulates. Source: Focal Transformer, sec. 3.2, eq. 3.

    Args:
        q_BhNd: queries `(B, h, W n, d)`, grouped by window.
        k_BhSd: keys `(B, h, S, d)`.
        v_BhSe: values `(B, h, S, e)`.
        keys_WM: indices into the `S` keys, `(W, M)`.
        bias_hnM: added to the logits, the same in every window.
        mask: boolean `(W, n or 1, M)`, true where attention is allowed.
        scale: factor of the logits, `d ** -0.5` by default.

    Returns:
        `(B, h, W n, e)`, in a memory layout that `merge_heads` does not copy.
    """
    h, W = k_BhSd.shape[1], keys_WM.shape[0]
    # Fold windows into heads, so that one bias and mask serve all images.
    q = rearrange(q_BhNd, 'B h (W n) d -> B (W h) n d', W=W)
    k, v = (_gather(x, keys_WM) for x in (k_BhSd, v_BhSe))
    bias = None if bias_hnM is None else bias_hnM.to(q.dtype)
    if mask is not None:
        zeros = torch.zeros(mask.shape, dtype=q.dtype, device=q.device)
        hidden = zeros.masked_fill_(~mask, -torch.inf)[:, None]
        bias = hidden if bias is None else bias + hidden
    if bias is not None:
        bias = bias.expand(W, h, -1, -1).flatten(0, 1)[None]
    out = softmax_attention(q, k, v, bias=bias, scale=scale)
    return contiguous(rearrange(out, 'B (W h) n e -> B W n h e', W=W)).flatten(1, 2).transpose(1, 2)


def _gather(x_BhSd: Tensor, keys_WM: Tensor) -> Tensor:
    """Gather the keys or values of every window and head, `(B, W h, M, d)`.

    `F.embedding` gathers rows, and its backward is fast on every device, faster with fewer rows.
    With gradients the rows are therefore whole tokens, whose heads are separated by another copy;
    without gradients the rows are heads.
    """
    (B, h, S, _), device = x_BhSd.shape, x_BhSd.device
    tokens_BWM = keys_WM + S * torch.arange(B, device=device)[:, None, None]
    if x_BhSd.requires_grad and torch.is_grad_enabled():
        x = F.embedding(tokens_BWM, rearrange(x_BhSd, 'B h S d -> (B S) (h d)'))
        return rearrange(x, 'B W M (h d) -> B (W h) M d', h=h)
    rows_BWhM = h * tokens_BWM[:, :, None] + torch.arange(h, device=device)[:, None]
    return F.embedding(rows_BWhM.flatten(1, 2), rearrange(x_BhSd, 'B h S d -> (B S h) d'))


def neighbor_offsets(window: int, expand: int) -> list[tuple[int, int]]:
    """List the neighbours of a window in Focal Transformer's order, `(row, column)` from the
    window's first token.

    Four copies of the window are shifted by `expand` along the diagonals; the tokens that they
    cover outside the window are its neighbours. With a window of 7 and a shift of 3 there are 132.
    The 12 in its middle row and column are listed twice.
    """
    inside = range(window)
    offsets = []
    for dy, dx in product((expand, -expand), repeat=2):
        for y, x in product(range(dy, dy + window), range(dx, dx + window)):
            if y not in inside or x not in inside:
                offsets.append((y, x))
    return offsets


def resize_neighbor_bias(
    table_1hnK: Tensor, window: int, expand: int, new_window: int, new_expand: int
) -> Tensor:
    """Resize a learned bias of queries and neighbours bilinearly to another window and shift.

    Each of the four shifted windows is cut at the border of the window, and the pieces are resized
    separately, so that a neighbour beside the window stays beside it. If `expand` is not smaller
    than the window, no neighbour lies in the same rows or columns as the window; where the new
    window has such neighbours, their bias is 0.

    Args:
        table_1hnK: `(1, heads, window ** 2, K)`, neighbours in the order of `neighbor_offsets`.

    Returns:
        `(1, heads, new_window ** 2, K')`.
    """
    inside = max(window - expand, 0)
    new_inside = max(new_window - new_expand, 0)
    table = table_1hnK.transpose(-2, -1).flatten(1, 2).unflatten(-1, (window, window))
    table = F.interpolate(table, size=(new_window, new_window), mode='bilinear').flatten(2)
    table = table.unflatten(1, (-1, 4, table_1hnK.shape[-1] // 4)).permute(2, 0, 1, 4, 3)
    copies = []
    for copy, (down, right) in zip(table, ((1, 1), (1, 0), (0, 1), (0, 0))):
        grid = copy.new_zeros(*copy.shape[:3], window, window)
        grid[..., _outside(window, inside, down, right)] = copy
        rows, cols = (
            _halves(inside, window, new_inside=new_inside, new_window=new_window, forward=forward)
            for forward in (down, right)
        )
        bands = []
        for y, height in rows:
            pieces = [_resize(grid[..., y, x], (height, width)) for x, width in cols]
            bands.append(torch.cat(pieces, dim=-1))
        resized = torch.cat(bands, dim=-2)
        copies.append(resized[..., _outside(new_window, new_inside, down, right)])
    return torch.cat(copies, dim=-1)


def _outside(window: int, inside: int, down: int, right: int) -> Tensor:
    """Mask of the tokens of a shifted window that lie outside the window; `down` and `right` are
    the directions.
    """
    beyond = torch.arange(window) >= inside
    rows, cols = (beyond if forward else beyond.flip(0) for forward in (down, right))
    return rows[:, None] | cols


def _halves(
    inside: int, window: int, new_inside: int, new_window: int, forward: int
) -> list[tuple[slice, int]]:
    """Split an axis of a shifted window at the window's border: the slice of each part and its new
    length.
    """
    if forward:
        border, new_border = inside, new_inside
    else:
        border, new_border = window - inside, new_window - new_inside
    return [(slice(0, border), new_border), (slice(border, window), new_window - new_border)]


def _resize(x: Tensor, size: tuple[int, int]) -> Tensor:
    if 0 in size or 0 in x.shape:
        return x.new_zeros(*x.shape[:-2], *size)
    resized = F.interpolate(x.flatten(0, -3)[:, None], size=size, mode='bilinear')
    return resized.view(*x.shape[:-2], *size)


def window_positions(grid: tuple[int, int], window: int, offsets_K2: Tensor) -> Tensor:
    """Map positions of tokens given by their offsets from the first token of each window.

    Args:
        grid: windows `(rows, columns)`.
        window: side of a window.
        offsets_K2: `(row, column)`; may lie outside the window.

    Returns:
        `(W, K, 2)`, windows in row-major order. Positions may lie beyond the border of the map.
    """
    rows, cols = (torch.arange(side, device=offsets_K2.device) * window for side in grid)
    origins = torch.stack((rows[:, None].expand(grid), cols.expand(grid)), dim=-1)
    return origins.flatten(0, 1)[:, None] + offsets_K2


def window_order(positions_WK2: Tensor, grid: tuple[int, int], window: int) -> Tensor:
    """Index of each position in tokens grouped by window; positions beyond the border wrap
    around.
    """
    y = positions_WK2[..., 0] % operand(grid[0] * window)
    x = positions_WK2[..., 1] % operand(grid[1] * window)
    return (y // window * grid[1] + x // window) * window**2 + y % window * window + x % window


def visible_keys(
    keys_WK2: Tensor,
    queries_Wn2: Tensor,
    hw_shape: tuple[int, int],
    map_size: tuple[int, int],
    shift: int,
    *,
    wrap: bool,
    padding: bool,
) -> Tensor:
    """Mask of the keys that each query may attend to, on a padded and rolled map.

    Args:
        keys_WK2: positions of the keys; those that wrap around lie beyond the border.
        queries_Wn2: positions of the queries.
        hw_shape: `(H, W)` before padding.
        map_size: `(H, W)` after padding.
        shift: distance by which the map was rolled up and left.
        wrap: if True, keys from the opposite side of the map are visible.
        padding: if True, padding is visible.

    Returns:
        Boolean `(W, n, K)`, or `(W, 1, K)` if all queries of a window see the same keys.
    """

    def is_real(positions: Tensor) -> Tensor:
        y, x = (
            (positions[..., axis] + shift) % operand(map_size[axis]) < hw_shape[axis]
            for axis in (0, 1)
        )
        return y & x

    def wraps(positions: Tensor) -> Tensor:
        """Number of wraps of each position around the unrolled map, per axis, `(W, K, 2)`."""
        rows, cols = (
            torch.div(positions[..., axis] + shift, operand(map_size[axis]), rounding_mode='floor')
            for axis in (0, 1)
        )
        return torch.stack((rows, cols), dim=-1)

    visible = torch.ones_like(keys_WK2[:, None, :, 0], dtype=torch.bool)
    if not wrap:
        # Without a shift no query wraps around.
        queries = wraps(queries_Wn2 if shift else queries_Wn2[:, :1])
        visible = (wraps(keys_WK2)[:, None] == queries[:, :, None]).all(-1)
        if shift:
            # Padded queries are cropped later. They see every key, so that no row is fully masked.
            visible = visible | ~is_real(queries_Wn2)[..., None]
    return visible if padding else visible & is_real(keys_WK2)[:, None]


def pooled_keys(
    grid: tuple[int, int], level: int, focal_window: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Pooled tokens around each window.

    Args:
        grid: windows `(rows, columns)`.
        level: each window is pooled to `2 ** level` tokens along each axis; at level 0 to one
            token.
        focal_window: side of the region, in windows at level 0; odd.
        device: device of the result.

    Returns:
        Indices into the pooled map in row-major order, and a mask of those that lie on it; both
        `(W, K)` with `K = (focal_window + 2 ** level - 1) ** 2`.
    """
    step = 2**level
    around = torch.arange(focal_window + step - 1, device=device) - focal_window // 2
    (rows, row_inside), (cols, col_inside) = (_axis_positions(side, step, around) for side in grid)
    index = rows[:, None, :, None] * (grid[1] * step) + cols[None, :, None, :]
    inside = row_inside[:, None, :, None] & col_inside[None, :, None, :]
    return index.flatten(2).flatten(0, 1), inside.flatten(2).flatten(0, 1)


def _axis_positions(windows: int, step: int, around: Tensor) -> tuple[Tensor, Tensor]:
    """Clamped positions on one axis of a pooled map and a mask of those on it,
    `(windows, len(around))`.
    """
    positions = torch.arange(windows, device=around.device)[:, None] * step + around
    last = windows * step - 1
    return positions.clamp(0, last), (positions >= 0) & (positions <= last)
