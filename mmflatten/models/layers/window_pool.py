"""Pooling of windows to single tokens for focal attention."""
from __future__ import annotations

import torch
from einops import rearrange
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.layers.position import square_size
from mmflatten.ops import resize_grid, window_partition


class WindowPool(BaseModule):
    """Learned weighted sum of the tokens of a window, the same for all channels: `(B, W, n, C) -> (B, W, C)`.

    Weights for a different window size are resized bilinearly when they are loaded, and approximately keep their sum.
    """

    def __init__(self, side: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(1, side ** 2))
        self.bias = nn.Parameter(torch.zeros(1))
        nn.init.trunc_normal_(self.weight, std=.02)

    def forward(self, x_BWnC: Tensor) -> Tensor:
        return (self.weight @ x_BWnC).squeeze(2) + self.bias

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args) -> None:
        weight = state_dict.get(prefix + 'weight')
        if weight is not None and weight.shape[1] != self.weight.shape[1]:
            old, new = (square_size(n, prefix + 'weight') for n in (weight.shape[1], self.weight.shape[1]))
            resized = resize_grid(weight[..., None], old, new)[..., 0]
            state_dict[prefix + 'weight'] = resized * (weight.numel() / resized.numel())
        super()._load_from_state_dict(state_dict, prefix, *args)


def sub_windows(x_BHWC: Tensor, grid: tuple[int, int], level: int, side: int) -> Tensor:
    """Cut a map into sub-windows, `2 ** level` per window and axis: `(B, H, W, C) -> (B, W n, C)`.

    Rows and columns that they do not cover are trimmed evenly from the border.
    """
    size = [windows * 2 ** level * side for windows in grid]
    top, left = ((have - need) // 2 for have, need in zip(x_BHWC.shape[1:3], size))
    x_BHWC = x_BHWC[:, top:top + size[0], left:left + size[1]]
    number = grid[0] * grid[1] * 4 ** level
    return rearrange(window_partition(x_BHWC, (side, side)), '(B W) n C -> B (W n) C', W=number)
