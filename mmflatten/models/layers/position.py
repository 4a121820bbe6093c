"""Depthwise convolutions on tokens, and learned position tables that adapt to the size of the map."""
from __future__ import annotations

from math import isqrt

import torch
import torch.nn.functional as F
from einops import rearrange
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.layers.linear import uses_onednn
from mmflatten.models.layers.tokens import on_map
from mmflatten.ops import resize_grid, resize_relative_position_bias
from mmflatten.ops.kernels import pick_kernel, token_convolution
from mmflatten.ops.sizes import same_size


class ConvGELU(nn.Conv2d):
    """`gelu(conv(x))`; oneDNN computes both in one pass where `uses_onednn` holds."""

    def forward(self, x_BCHW: Tensor) -> Tensor:
        if not uses_onednn(x_BCHW):
            return F.gelu(super().forward(x_BCHW))
        return torch.ops.mkldnn._convolution_pointwise(
            x_BCHW, self.weight, self.bias, self.padding, self.stride, self.dilation, self.groups, 'gelu', [], 'none')


def check_odd(kernel_size: int) -> None:
    """Raise ValueError unless a kernel is odd, so that the map keeps its size."""
    if kernel_size < 1 or kernel_size % 2 == 0:
        raise ValueError(f'kernel_size: expected an odd positive number, got {kernel_size}.')


def depthwise(channels: int, kernel_size: int, gelu: bool = False) -> nn.Conv2d:
    """A depthwise convolution that keeps the size of the map, optionally followed by GELU.

    Raises:
        ValueError: `kernel_size` is even or not positive.
    """
    check_odd(kernel_size)
    conv = ConvGELU if gelu else nn.Conv2d
    return conv(channels, channels, kernel_size, padding=kernel_size // 2, groups=channels)


class TokenConv(BaseModule):
    """Depthwise convolution on the map of the tokens; the output for prefix tokens (a class token) is zero.

    Args:
        embed_dims: channels `C`.
        kernel_size: odd.
        num_groups: number of groups of `C / num_groups` consecutive channels that share the same weights. FLatten's
            heads do: `num_groups=num_heads`.
        gelu: apply GELU to the output. Requires `num_groups=1`.
    """

    def __init__(self, embed_dims: int, kernel_size: int, num_groups: int = 1, init_cfg: dict | None = None, *,
                 gelu: bool = False) -> None:
        super().__init__(init_cfg)
        if embed_dims % num_groups:
            raise ValueError(f'num_groups: expected a divisor of embed_dims ({embed_dims}), got {num_groups}.')
        if gelu and num_groups > 1:
            raise ValueError(f'num_groups: expected 1 with gelu=True, got {num_groups}.')
        self.num_groups = num_groups
        self.gelu = gelu
        self.conv = depthwise(embed_dims // num_groups, kernel_size, gelu)

    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        if self.conv.bias is not None and pick_kernel(x_BNC):
            y_BNC = token_convolution(x_BNC, self.conv.weight, self.conv.bias, hw_shape)
            return F.gelu(y_BNC) if self.gelu else y_BNC
        return on_map(self._convolve, x_BNC, hw_shape)

    def _convolve(self, x_BCHW: Tensor) -> Tensor:
        if self.num_groups == 1:
            return self.conv(x_BCHW)
        weight, bias = (p.repeat(self.num_groups, *[1] * (p.dim() - 1)) for p in self.conv.parameters())
        return F.conv2d(x_BCHW, weight, bias, padding=self.conv.padding, groups=x_BCHW.shape[1])


class GridTable(BaseModule):
    """Learned position embedding for every token of a map, added to the tokens of a map of any size.

    The parameter keeps its pre-training size, and `forward` resizes it bilinearly. A checkpoint with a different number
    of rows is resized bicubically when it is loaded. With the same number of rows, the shape is assumed to be the same,
    because checkpoints do not store it. Prefix tokens have separate rows. If the table has none for a class token, the
    checkpoint's row for it is dropped, as in PVT's dense tasks.

    Args:
        embed_dims: channels.
        grid_size: `(H, W)` of the map in pre-training.
        num_prefix: number of prefix tokens with a row; these rows come first.
        std: standard deviation of the initial values; 0 initialises with zeros.
    """

    def __init__(self, embed_dims: int, grid_size: tuple[int, int], num_prefix: int = 0, std: float = 0.,
                 init_cfg: dict | None = None) -> None:
        super().__init__(init_cfg)
        self.grid_size = (grid_size[0], grid_size[1])
        self.num_prefix = num_prefix
        self.std = std
        self.table = nn.Parameter(torch.zeros(1, num_prefix + grid_size[0] * grid_size[1], embed_dims))

    def init_weights(self) -> None:
        super().init_weights()
        if self.std:
            nn.init.trunc_normal_(self.table, std=self.std)

    def rows(self, hw_shape: tuple[int, int]) -> Tensor:
        """Rows for a map of this shape, `(1, N, C)`, prefix tokens first."""
        return self._resized(self.table, self.grid_size, hw_shape, 'bilinear')

    def rows_of(self, tokens: int, hw_shape: tuple[int, int]) -> Tensor:
        """Rows for this number of tokens, `(1, tokens, C)`. Additional prefix tokens come first and have zeros."""
        table = self.rows(hw_shape)
        missing = tokens - table.shape[1]
        return torch.cat((table.new_zeros(1, missing, table.shape[2]), table), dim=1) if missing else table

    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        return x_BNC + self.rows_of(x_BNC.shape[1], hw_shape).to(x_BNC.dtype)

    def _resized(self, table: Tensor, size: tuple[int, int], new_size: tuple[int, int], mode: str) -> Tensor:
        if same_size(size, new_size):
            return table
        grid = resize_grid(table[:, self.num_prefix:], size, new_size, mode)
        return torch.cat((table[:, :self.num_prefix], grid), dim=1) if self.num_prefix else grid

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args) -> None:
        table = state_dict.get(prefix + 'table')
        if table is not None and table.shape[1] != self.table.shape[1]:
            without_first = table.shape[1] - 1
            if not self.num_prefix and without_first and isqrt(without_first) ** 2 == without_first:
                table = table[:, 1:]
            size = square_size(table.shape[1] - self.num_prefix, prefix + 'table')
            state_dict[prefix + 'table'] = self._resized(table, size, self.grid_size, 'bicubic')
        super()._load_from_state_dict(state_dict, prefix, *args)


class RelativePositionBias(BaseModule):
    """Learned bias for every head and every offset between two tokens of a window (Swin Transformer, sec. 3.2).

    A table for a different window size is resized bicubically when it is loaded.

    Args:
        window_size: `(h, w)`.
        num_heads: number of heads.
        std: standard deviation of the initial values; 0 initialises with zeros.
    """

    def __init__(self, window_size: tuple[int, int], num_heads: int, std: float = .02,
                 init_cfg: dict | None = None) -> None:
        super().__init__(init_cfg)
        self.std = std
        h, w = window_size
        self.window_size = (h, w)
        self.table = nn.Parameter(torch.zeros((2 * h - 1) * (2 * w - 1), num_heads))
        rows, cols = torch.arange(h * w) // w, torch.arange(h * w) % w
        offsets = (rows[:, None] - rows + h - 1) * (2 * w - 1) + cols[:, None] - cols + w - 1
        self.register_buffer('index', offsets.flatten(), persistent=False)

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
            state_dict[prefix + 'table'] = resize_relative_position_bias(table, (side, side), self.window_size)
        super()._load_from_state_dict(state_dict, prefix, *args)


def square_size(length: int, name: str) -> tuple[int, int]:
    """`(side, side)` of a square map with `length` tokens, because checkpoints do not store the shape.

    Raises:
        ValueError: `length` is not a square number.
    """
    side = round(length ** .5)
    if side * side != length:
        raise ValueError(f'{name}: only tables of square maps can be resized, got {length} rows in the checkpoint. '
                         'Build the model with the img_size of the checkpoint.')
    return side, side
