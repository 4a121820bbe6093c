"""Mixers in windows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from einops import rearrange, reduce, repeat
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.layers import join_prefix, split_prefix
from mmflatten.ops import (
    pad_and_roll,
    padded_window_mask,
    roll_and_crop,
    shifted_window_mask,
    window_partition,
    window_reverse,
)
from mmflatten.ops.sizes import ceil_div, certain, same_size
from mmflatten.ops.windows import Shift


class Windowed(BaseModule):
    """Run a mixer in every window of the map. The mixer receives each window as its map.

    The map is zero-padded at the right and the bottom to whole windows. If one window covers an
    axis of the map, there is no shift along either axis, as in the official Swin. Prefix tokens,
    such as a class token, are added to every window, and their outputs are averaged over the
    windows.

    Args:
        mixer: inner mixer, called as `mixer(x, window_size, mask)`.
        window_size: `(h, w)`, where None stands for the whole side of the map. None instead of the
            pair makes the whole map one window.
        shift: roll the map by half a window first (every second block of Swin).
        mask_padding: exclude padding from attention. In mixers without logits padding is always
            excluded, because it would contribute to the sums over all keys.
    """

    def __init__(
        self,
        mixer: nn.Module,
        window_size: tuple[int | None, int | None] | None,
        *,
        shift: bool = False,
        mask_padding: bool = False,
    ) -> None:
        super().__init__()
        self.mixer = mixer
        self.window_size = None if window_size is None else tuple(window_size)
        self.shift = shift
        # Softmax windows exclude pairs of tokens that became neighbours by the roll; FLatten's
        # linear windows do not.
        self.mask_shift = getattr(mixer, 'has_logits', False)
        self.mask_padding = mask_padding or not self.mask_shift

    def forward(self, x: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            raise ValueError(
                f'mask: {type(self.mixer).__name__} already runs in windows and takes no mask, got'
                ' one. Remove linear_window.'
            )
        if self.window_size is None:
            return self.mixer(x, hw_shape)
        H, W = hw_shape
        number = [
            1 if side is None else ceil_div(length, side)
            for length, side in zip(hw_shape, self.window_size)
        ]
        h, w = window = (self.window_size[0] or H, self.window_size[1] or W)
        padded = (number[0] * h, number[1] * w)
        shift = self._distances(window, number, x.device)

        prefix, x = split_prefix(x, hw_shape)
        x = pad_and_roll(rearrange(x, 'B (H W) ... -> B H W ...', H=H, W=W), padded, shift)
        windows = window_partition(x, window)
        mask = self._mask((H, W), padded, window, shift, x.device)
        prefix, windows = self._mix(prefix, windows, window, mask, number[0] * number[1])
        x = roll_and_crop(window_reverse(windows, window, padded), (H, W), shift)
        return join_prefix(prefix, rearrange(x, 'B H W C -> B (H W) C'))

    def _distances(
        self, window: tuple[int, int], number: Sequence[int], device: torch.device
    ) -> Shift | None:
        """Rows and columns by which the map is rolled; None for no roll."""
        distances = (window[0] // 2, window[1] // 2)
        if not (self.shift and any(distances)) or any(certain(count <= 1) for count in number):
            return None
        if all(certain(count > 1) for count in number):
            return distances
        rows, cols = (
            torch.scalar_tensor(count, device=device, dtype=torch.long) > 1 for count in number
        )
        return distances[0] * (rows & cols), distances[1] * (rows & cols)

    def _mix(
        self,
        prefix: Tensor,
        windows: Tensor,
        window: tuple[int, int],
        mask: Tensor | None,
        copies: int,
    ) -> tuple[Tensor, Tensor]:
        """Outputs of the mixer for the prefix tokens, averaged over windows, and for the
        windows.
        """
        number = prefix.shape[1]
        if number == 0:
            return prefix, self.mixer(windows, window, mask)
        windows = join_prefix(repeat(prefix, 'B ... -> (B W) ...', W=copies), windows)
        if mask is not None:
            mask = F.pad(mask, (number, 0, number if mask.shape[1] > 1 else 0, 0), value=True)
        windows = self.mixer(windows, window, mask)
        return (
            reduce(windows[:, :number], '(B W) P C -> B P C', 'mean', W=copies),
            windows[:, number:],
        )

    def _mask(
        self,
        hw_shape: tuple[int, int],
        padded: tuple[int, int],
        window: tuple[int, int],
        shift: Shift | None,
        device: torch.device,
    ) -> Tensor | None:
        """Boolean `(nW, N or 1, N)`, or None if every query may attend to every key of its
        window.
        """
        real = neighbours = None
        if self.mask_padding and not same_size(padded, hw_shape):
            real = padded_window_mask(hw_shape, padded, window, shift or (0, 0), device)
        if self.mask_shift and shift is not None:
            neighbours = shifted_window_mask(padded, window, shift, device)
        if real is None or neighbours is None:
            return real if neighbours is None else neighbours
        # The softmax of a row without keys is undefined. Queries of padding are cropped, so they
        # may attend to all.
        return real & (neighbours | ~real.transpose(1, 2))
