"""Learned position tables that adapt to the size of the map."""

from __future__ import annotations

from math import isqrt

import torch
import torch.nn.functional as F
from einops import rearrange
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.ops import resize_grid, resize_relative_position_bias, rotary_normalized
from mmflatten.ops.resize import RESIZE_MODES
from mmflatten.ops.sizes import same_size

_AGENT_GRID = 7  # side of the coarse table in the official code of Agent Attention


class GridTable(BaseModule):
    """Learned position embedding for every token of a map, added to the tokens of a map of any
    size.

    The parameter keeps its pre-training size, and `forward` resizes it. A checkpoint with a
    different number of rows is resized when it is loaded, bicubically if `resize` is bilinear. With
    the same number of rows, the shape is assumed to be the same, because checkpoints do not store
    it. Prefix tokens have separate rows. If the table has none for a class token, the checkpoint's
    row for it is dropped, as in PVT's dense tasks.

    Args:
        embed_dims: channels.
        grid_size: `(H, W)` of the map in pre-training.
        num_prefix: number of prefix tokens with a row; these rows come first.
        std: standard deviation of the initial values; 0 initialises with zeros.
        resize: mode of `resize_grid`.
    """

    def __init__(
        self,
        embed_dims: int,
        grid_size: tuple[int, int],
        num_prefix: int = 0,
        std: float = 0.0,
        init_cfg: dict | None = None,
        resize: str = 'bilinear',
    ) -> None:
        super().__init__(init_cfg)
        if resize not in RESIZE_MODES:
            raise ValueError(f'resize: expected one of {RESIZE_MODES}, got {resize!r}.')
        self.resize = resize
        self.grid_size = (grid_size[0], grid_size[1])
        self.num_prefix = num_prefix
        self.std = std
        self.table = nn.Parameter(
            torch.zeros(1, num_prefix + grid_size[0] * grid_size[1], embed_dims)
        )

    def init_weights(self) -> None:
        super().init_weights()
        if self.std:
            nn.init.trunc_normal_(self.table, std=self.std)

    def rows(self, hw_shape: tuple[int, int]) -> Tensor:
        """Rows for a map of this shape, `(1, N, C)`, prefix tokens first."""
        return self._resized(self.table, self.grid_size, hw_shape, self.resize)

    def rows_of(self, tokens: int, hw_shape: tuple[int, int]) -> Tensor:
        """Rows for this number of tokens, `(1, tokens, C)`. Additional prefix tokens come first and
        have zeros.
        """
        table = self.rows(hw_shape)
        missing = tokens - table.shape[1]
        if not missing:
            return table
        return torch.cat((table.new_zeros(1, missing, table.shape[2]), table), dim=1)

    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        return x_BNC + self.rows_of(x_BNC.shape[1], hw_shape).to(x_BNC.dtype)

    def _resized(
        self, table: Tensor, size: tuple[int, int], new_size: tuple[int, int], mode: str
    ) -> Tensor:
        if same_size(size, new_size):
            return table
        grid = resize_grid(table[:, self.num_prefix :], size, new_size, mode)
        return torch.cat((table[:, : self.num_prefix], grid), dim=1) if self.num_prefix else grid

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args) -> None:
        table = state_dict.get(prefix + 'table')
        if table is not None and table.shape[1] != self.table.shape[1]:
            without_first = table.shape[1] - 1
            if not self.num_prefix and without_first and isqrt(without_first) ** 2 == without_first:
                table = table[:, 1:]
            size = square_size(table.shape[1] - self.num_prefix, prefix + 'table')
            mode = 'bicubic' if self.resize == 'bilinear' else self.resize
            state_dict[prefix + 'table'] = self._resized(table, size, self.grid_size, mode=mode)
        super()._load_from_state_dict(state_dict, prefix, *args)


class NormalizedRotary(BaseModule):
    """Rotation of queries and keys `(B, N, C)` by their place on the map, `rotary_normalized`
    (DINOv3).

    The periods are a buffer of the checkpoint, because the authors' files hold them rounded to
    bfloat16.

    Args:
        head_dims: channels of a head, a multiple of 4.
        base: longest period (100 in DINOv3); period `j` of `p` is `base ** (j / p)`.
    """

    def __init__(self, head_dims: int, base: float) -> None:
        super().__init__()
        if head_dims % 4:
            raise ValueError(
                f'head_dims: expected a multiple of 4 for rotary positions, got {head_dims}.'
            )
        self.register_buffer('periods', base ** (torch.arange(head_dims // 4) / (head_dims // 4)))

    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        return rotary_normalized(x_BNC, hw_shape, self.periods)


class RelativePositionBias(BaseModule):
    """Learned bias for every head and every offset between two tokens of a window (Swin
    Transformer, sec. 3.2).

    A table for a different window size is resized bicubically when it is loaded.

    Args:
        window_size: `(h, w)`.
        num_heads: number of heads.
        std: standard deviation of the initial values; 0 initialises with zeros.
    """

    def __init__(
        self,
        window_size: tuple[int, int],
        num_heads: int,
        std: float = 0.02,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(init_cfg)
        self.std = std
        h, w = window_size
        self.window_size = (h, w)
        self.table = nn.Parameter(torch.zeros((2 * h - 1) * (2 * w - 1), num_heads))
        rows = torch.arange(h * w) // w
        cols = torch.arange(h * w) % w
        row_offsets = rows[:, None] - rows + h - 1
        col_offsets = cols[:, None] - cols + w - 1
        index = row_offsets * (2 * w - 1) + col_offsets
        self.register_buffer('index', index.flatten(), persistent=False)

    def init_weights(self) -> None:
        super().init_weights()
        if self.std:
            nn.init.trunc_normal_(self.table, std=self.std)

    def forward(self) -> Tensor:
        """Bias of the logits, `(1, heads, h * w, h * w)`."""
        tokens = self.window_size[0] * self.window_size[1]
        return rearrange(self.table[self.index], '(N M) h -> 1 h N M', N=tokens)

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args) -> None:
        table = state_dict.get(prefix + 'table')
        if table is not None and table.shape[0] != self.table.shape[0]:
            side = (square_size(table.shape[0], prefix + 'table')[0] + 1) // 2
            state_dict[prefix + 'table'] = resize_relative_position_bias(
                table, (side, side), self.window_size
            )
        super()._load_from_state_dict(state_dict, prefix, *args)


class AgentBias(BaseModule):
    """Learned bias for every head, agent and token: the sum of a coarse map, a row term and a
    column term.

    The parameters keep their pre-training size, and `forward` resizes them bilinearly. A checkpoint
    with a different number of agents, rows or columns is resized when it is loaded.

    Args:
        num_heads: heads `h`.
        num_agents: agents `a`, a square number.
        grid_size: `(H, W)` of the map in pre-training.
        num_prefix: number of prefix tokens with a learned bias; further ones have a bias of zero.
    """

    def __init__(
        self, num_heads: int, num_agents: int, grid_size: tuple[int, int], num_prefix: int = 0
    ) -> None:
        super().__init__()
        H, W = grid_size
        self.grid = nn.Parameter(torch.empty(num_heads, num_agents, _AGENT_GRID, _AGENT_GRID))
        self.rows = nn.Parameter(torch.empty(num_heads, num_agents, H, 1))
        self.cols = nn.Parameter(torch.empty(num_heads, num_agents, 1, W))
        self.prefix = (
            nn.Parameter(torch.empty(num_heads, num_agents, num_prefix)) if num_prefix else None
        )
        self.reset_parameters()

    def init_weights(self) -> None:
        super().init_weights()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters from a truncated normal distribution with standard deviation 0.02."""
        for table in self.parameters():
            nn.init.trunc_normal_(table, std=0.02)

    def forward(self, hw_shape: tuple[int, int], num_prefix: int = 0) -> Tensor:
        """Biases `(1, h, a, N)` for a map of this shape, prefix tokens first."""
        fine = _resize(self.rows + self.cols, hw_shape)
        bias_1haN = (_resize(self.grid, hw_shape) + fine).flatten(2)[None]
        if not num_prefix:
            return bias_1haN
        learned = bias_1haN[..., :0]
        if self.prefix is not None:
            learned = self.prefix[None, ..., :num_prefix]
        zeros = bias_1haN.new_zeros(*bias_1haN.shape[:3], num_prefix - learned.shape[-1])
        return torch.cat((learned, zeros, bias_1haN), dim=-1)

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args) -> None:
        for name, parameter in self.named_parameters():
            table = state_dict.get(prefix + name)
            if (
                table is not None
                and table.dim() == parameter.dim()
                and table.shape[0] == parameter.shape[0]
            ):
                state_dict[prefix + name] = self._fitted(table, parameter, prefix + name)
        super()._load_from_state_dict(state_dict, prefix, *args)

    @staticmethod
    def _fitted(table: Tensor, parameter: Tensor, name: str) -> Tensor:
        """Resize a table to the rows, columns and agents of a parameter."""
        if table.dim() == 4:
            table = _resize(table, (parameter.shape[2], parameter.shape[3]))
        if table.shape[1] == parameter.shape[1]:
            return table
        side, _ = square_size(table.shape[1], name)
        new_side, _ = square_size(parameter.shape[1], name)
        agents = rearrange(table, 'h (y x) ... -> h (...) y x', y=side, x=side)
        resized = _resize(agents, (new_side, new_side))
        return resized.flatten(2).transpose(1, 2).reshape(parameter.shape)


def _resize(x: Tensor, size: tuple[int, int]) -> Tensor:
    if same_size((x.shape[-2], x.shape[-1]), size):
        return x
    return F.interpolate(x, size=size, mode='bilinear')


def square_size(length: int, name: str) -> tuple[int, int]:
    """`(side, side)` of a square map with `length` tokens, because checkpoints do not store the
    shape.

    Raises:
        ValueError: `length` is not a square number.
    """
    side = round(length**0.5)
    if side * side != length:
        raise ValueError(
            f'{name}: only tables of square maps can be resized, got {length} rows in the'
            ' checkpoint. Build the model with the img_size of the checkpoint.'
        )
    return side, side
