"""Parts of focal attention: the grid of windows, biases of keys outside the window, and pooling of
windows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from einops import rearrange
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.layers.position import square_size
from mmflatten.ops import (
    neighbor_offsets,
    pad_and_roll,
    resize_grid,
    resize_neighbor_bias,
    roll_and_crop,
    window_partition,
    window_reverse,
)
from mmflatten.ops.sizes import ceil_div, certain


@dataclass(frozen=True)
class WindowGrid:
    """A map that is zero-padded to whole windows, rolled, and cut into windows.

    Attributes:
        hw: `(H, W)` of the map.
        side: side of a window.
        distances: rows and columns by which the map is rolled up and left; None for no roll.
    """

    hw: tuple[int, int]
    side: int
    distances: tuple[int, int] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Windows `(rows, columns)`."""
        return ceil_div(self.hw[0], self.side), ceil_div(self.hw[1], self.side)

    @property
    def padded_hw(self) -> tuple[int, int]:
        """`(H, W)` of the padded map."""
        rows, cols = self.shape
        return rows * self.side, cols * self.side

    @property
    def num_tokens(self) -> int:
        """Number of tokens of the padded map."""
        return self.padded_hw[0] * self.padded_hw[1]

    @property
    def has_padding(self) -> bool:
        """True unless the map is known to consist of whole windows."""
        return not all(certain(length % self.side == 0) for length in self.hw)

    def pad_and_roll(self, x_BNC: Tensor) -> Tensor:
        """Tokens of the map to the padded and rolled map, `(B, H, W, C)`."""
        x_BHWC = rearrange(x_BNC, 'B (H W) C -> B H W C', H=self.hw[0])
        return pad_and_roll(x_BHWC, self.padded_hw, self.distances)

    def partition(self, x_BHWC: Tensor) -> Tensor:
        """The padded and rolled map to tokens in the order of the windows, `(B, W n, C)`."""
        windows = window_partition(x_BHWC, (self.side, self.side))
        return rearrange(windows, '(B W) n C -> B (W n) C', W=self.shape[0] * self.shape[1])

    def reverse(self, x_BNC: Tensor) -> Tensor:
        """Tokens in the order of the windows to tokens of the map, row by row and without
        padding.
        """
        windows = rearrange(x_BNC, 'B (W n) C -> (B W) n C', n=self.side**2)
        x_BHWC = window_reverse(windows, (self.side, self.side), self.padded_hw)
        return rearrange(roll_and_crop(x_BHWC, self.hw, self.distances), 'B H W C -> B (H W) C')

    def real(self, device: torch.device) -> Tensor:
        """Mask of the real (non-padding) tokens of the padded and rolled map, `(1, H, W, 1)`."""
        ones = torch.ones(1, *self.hw, 1, dtype=torch.bool, device=device)
        return pad_and_roll(ones, self.padded_hw, self.distances)


class NeighborBias(BaseModule):
    """Learned bias for every query of a window and every neighbour. Neighbours that are listed
    twice become one key.

    Two equal keys with biases `a` and `b` weigh as much as one with `log(exp(a) + exp(b))`. A table
    for a different window size is resized bilinearly when it is loaded.
    """

    def __init__(self, num_heads: int, window: int, expand: int) -> None:
        super().__init__()
        self.window = window
        self.expand = expand
        listed = neighbor_offsets(window, expand)
        self.table = nn.Parameter(torch.zeros(1, num_heads, window**2, len(listed)))
        nn.init.trunc_normal_(self.table, std=0.02)
        slots: dict[tuple[int, int], list[int]] = {}
        for slot, offset in enumerate(listed):
            slots.setdefault(offset, []).append(slot)
        twice = {offset: where for offset, where in slots.items() if len(where) == 2}
        once = {offset: where for offset, where in slots.items() if len(where) == 1}
        self._register_index('offsets', [*twice, *once])
        self._register_index('first', [where[0] for where in twice.values()])
        self._register_index('second', [where[1] for where in twice.values()])
        self._register_index('single', [where[0] for where in once.values()])

    def _register_index(self, name: str, values: list) -> None:
        self.register_buffer(name, torch.tensor(values, dtype=torch.long), persistent=False)

    def forward(self) -> Tensor:
        """Bias `(heads, n, K)` for the keys at `offsets`."""
        table = self.table[0]
        twice = torch.logaddexp(table[..., self.first], table[..., self.second])
        return torch.cat((twice, table[..., self.single]), dim=-1)

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args) -> None:
        table = state_dict.get(prefix + 'table')
        if table is not None and table.shape[-2:] != self.table.shape[-2:]:
            window = square_size(table.shape[-2], prefix + 'table')[0]
            state_dict[prefix + 'table'] = resize_neighbor_bias(
                table,
                window=window,
                expand=_expand_of(prefix + 'table', window, table.shape[-1]),
                new_window=self.window,
                new_expand=self.expand,
            )
        super()._load_from_state_dict(state_dict, prefix, *args)


def _expand_of(name: str, window: int, neighbors: int) -> int:
    """Return the `expand_size` that gives a window this number of neighbours.

    Raises:
        ValueError: there is none.
    """
    for expand in range(1, window + 1):
        if len(neighbor_offsets(window, expand)) == neighbors:
            return expand
    raise ValueError(
        f'{name}: no expand_size gives a window of {window} this number of neighbours, got'
        f' {neighbors}. The checkpoint does not belong to this model.'
    )


class PooledBias(BaseModule):
    """Learned bias for every offset between a query in its window and a pooled token in its region.

    Quirk of the official code: offsets subtract positions in pooled tokens from positions in fine
    tokens, unscaled. A table for a different region is resized bilinearly when it is loaded.

    Args:
        by_query: False has one bias per pooled token, `window_table`, which is `B^l` of the paper
            (eq. 3).
    """

    def __init__(self, num_heads: int, window: int, region: int, by_query: bool = True) -> None:
        super().__init__()
        self.side = window + region - 1 if by_query else region
        self.name = 'table' if by_query else 'window_table'
        self.register_parameter(self.name, nn.Parameter(torch.zeros(num_heads, self.side**2)))
        nn.init.trunc_normal_(self.get_parameter(self.name), std=0.02)
        rows = torch.arange(window)[:, None]
        if not by_query:
            rows = torch.zeros_like(rows)
        offsets = rows - torch.arange(region) + region - 1
        index = offsets[:, None, :, None] * self.side + offsets[None, :, None, :]
        self.register_buffer('index', index.flatten(2).flatten(0, 1), persistent=False)

    def forward(self) -> Tensor:
        """Bias `(heads, n, K)`."""
        return self.get_parameter(self.name)[:, self.index]

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args) -> None:
        table = state_dict.get(prefix + self.name)
        if table is not None and table.shape[1] != self.side**2:
            size = square_size(table.shape[1], prefix + self.name)
            state_dict[prefix + self.name] = resize_grid(
                table.t()[None], size, (self.side, self.side)
            )[0].t()
        super()._load_from_state_dict(state_dict, prefix, *args)


class WindowPool(BaseModule):
    """Learned weighted sum of the tokens of a window, the same for all channels:
    `(B, W, n, C) -> (B, W, C)`.

    Weights for a different window size are resized bilinearly when they are loaded, and
    approximately keep their sum.
    """

    def __init__(self, side: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(1, side**2))
        self.bias = nn.Parameter(torch.zeros(1))
        nn.init.trunc_normal_(self.weight, std=0.02)

    def forward(self, x_BWnC: Tensor) -> Tensor:
        return (self.weight @ x_BWnC).squeeze(2) + self.bias

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args) -> None:
        weight = state_dict.get(prefix + 'weight')
        if weight is not None and weight.shape[1] != self.weight.shape[1]:
            old = square_size(weight.shape[1], prefix + 'weight')
            new = square_size(self.weight.shape[1], prefix + 'weight')
            resized = resize_grid(weight[..., None], old, new)[..., 0]
            state_dict[prefix + 'weight'] = resized * (weight.numel() / resized.numel())
        super()._load_from_state_dict(state_dict, prefix, *args)


def sub_windows(x_BHWC: Tensor, grid: tuple[int, int], level: int, side: int) -> Tensor:
    """Cut a map into sub-windows, `2 ** level` per window and axis: `(B, H, W, C) -> (B, W n, C)`.

    Rows and columns that they do not cover are trimmed evenly from the border.
    """
    size = [windows * 2**level * side for windows in grid]
    top, left = ((have - need) // 2 for have, need in zip(x_BHWC.shape[1:3], size))
    x_BHWC = x_BHWC[:, top : top + size[0], left : left + size[1]]
    number = grid[0] * grid[1] * 4**level
    return rearrange(window_partition(x_BHWC, (side, side)), '(B W) n C -> B (W n) C', W=number)
