"""The window grid of focal attention."""
from __future__ import annotations

from dataclasses import dataclass

import torch
from einops import rearrange
from torch import Tensor

from mmflatten.ops import pad_and_roll, roll_and_crop, window_partition, window_reverse
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
        """Tokens in the order of the windows to tokens of the map, row by row and without padding."""
        windows = rearrange(x_BNC, 'B (W n) C -> (B W) n C', n=self.side ** 2)
        x_BHWC = window_reverse(windows, (self.side, self.side), self.padded_hw)
        return rearrange(roll_and_crop(x_BHWC, self.hw, self.distances), 'B H W C -> B (H W) C')

    def real(self, device: torch.device) -> Tensor:
        """Mask of the real (non-padding) tokens of the padded and rolled map, `(1, H, W, 1)`."""
        ones = torch.ones(1, *self.hw, 1, dtype=torch.bool, device=device)
        return pad_and_roll(ones, self.padded_hw, self.distances)
