"""Any mixer inside windows."""
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
    """A mixer that runs its inner mixer in every window of the map; the inner one sees its window as the map.

    A map that is no multiple of the window is zero-padded at the right and the bottom. Where one window covers an axis
    of the map, nothing is shifted along either, as in the official Swin. Prefix tokens, such as a class token, take
    part in every window; what the windows make of them is averaged.

    Args:
        mixer: the inner mixer, called as `mixer(x, window_size, mask)`.
        window_size: `(h, w)`, where None is the whole side of the map; None alone makes the whole map one window.
        shift: roll the map by half a window first (Swin's every second block).
        mask_padding: forbid attention to padding. Nothing is masked where nothing was padded. A mixer without logits
            never counts it: it would pollute the sums over all keys.
    """

    def __init__(self, mixer: nn.Module, window_size: tuple[int | None, int | None] | None, *,
                 shift: bool = False, mask_padding: bool = False) -> None:
        super().__init__()
        self.mixer = mixer
        self.window_size = None if window_size is None else tuple(window_size)
        self.shift = shift
        # Attention between tokens that the roll made neighbours is forbidden; FLatten's linear windows mix them.
        self.mask_shift = getattr(mixer, 'has_logits', False)
        self.mask_padding = mask_padding or not self.mask_shift

    def forward(self, x: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            raise ValueError(f'{type(self.mixer).__name__} has windows of its own and takes no mask of another window '
                             'around it; give it the whole map (no linear_window)')
        if self.window_size is None:
            return self.mixer(x, hw_shape)
        H, W = hw_shape
        number = [1 if side is None else ceil_div(length, side) for length, side in zip(hw_shape, self.window_size)]
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

    def _distances(self, window: tuple[int, int], number: Sequence[int], device: torch.device) -> Shift | None:
        """How far the map is rolled; None where it is not."""
        distances = (window[0] // 2, window[1] // 2)
        if not (self.shift and any(distances)) or any(certain(count <= 1) for count in number):
            return None
        if all(certain(count > 1) for count in number):
            return distances
        rows, cols = (torch.scalar_tensor(count, device=device, dtype=torch.long) > 1 for count in number)
        return distances[0] * (rows & cols), distances[1] * (rows & cols)

    def _mix(self, prefix: Tensor, windows: Tensor, window: tuple[int, int], mask: Tensor | None,
             copies: int) -> tuple[Tensor, Tensor]:
        """The mixer's results for the prefix tokens and for the windows."""
        number = prefix.shape[1]
        if number == 0:
            return prefix, self.mixer(windows, window, mask)
        windows = join_prefix(repeat(prefix, 'B ... -> (B W) ...', W=copies), windows)
        if mask is not None:
            mask = F.pad(mask, (number, 0, number if mask.shape[1] > 1 else 0, 0), value=True)
        windows = self.mixer(windows, window, mask)
        return reduce(windows[:, :number], '(B W) P C -> B P C', 'mean', W=copies), windows[:, number:]

    def _mask(self, hw_shape: tuple[int, int], padded: tuple[int, int], window: tuple[int, int],
              shift: Shift | None, device: torch.device) -> Tensor | None:
        """Boolean `(nW, N or 1, N)`, or None where every query may attend every key of its window."""
        real = neighbours = None
        if self.mask_padding and not same_size(padded, hw_shape):
            real = padded_window_mask(hw_shape, padded, window, shift or (0, 0), device)
        if self.mask_shift and shift is not None:
            neighbours = shifted_window_mask(padded, window, shift, device)
        if real is None or neighbours is None:
            return real if neighbours is None else neighbours
        # A row that excludes every key has no softmax; the queries of padding are cropped, so they may see all.
        return real & (neighbours | ~real.transpose(1, 2))
