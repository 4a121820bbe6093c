"""Any mixer inside windows."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from einops import rearrange, reduce, repeat
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.layers import join_prefix, split_prefix
from mmflatten.ops import padded_window_mask, shifted_window_mask, window_partition, window_reverse


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
            raise ValueError('Windowed takes no mask: it makes the masks of its windows itself')
        if self.window_size is None:
            return self.mixer(x, hw_shape)
        H, W = hw_shape
        h, w = window = (self.window_size[0] or H, self.window_size[1] or W)
        padded = (H + -H % h, W + -W % w)
        shift = (h // 2, w // 2) if self.shift and padded[0] > h and padded[1] > w else (0, 0)

        prefix, x = split_prefix(x, hw_shape)
        x = rearrange(x, 'B (H W) ... -> B H W ...', H=H, W=W)
        if padded != (H, W):
            x = F.pad(x, (0, 0) * (x.dim() - 3) + (0, padded[1] - W, 0, padded[0] - H))
        if any(shift):
            x = x.roll((-shift[0], -shift[1]), dims=(1, 2))
        windows = window_partition(x, window)
        prefix, windows = self._mix(prefix, windows, window, self._mask((H, W), padded, window, shift, x.device))
        x = window_reverse(windows, window, padded)
        if any(shift):
            x = x.roll(shift, dims=(1, 2))
        return join_prefix(prefix, rearrange(x[:, :H, :W], 'B H W C -> B (H W) C'))

    def _mix(self, prefix: Tensor, windows: Tensor, window: tuple[int, int],
             mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """The mixer's results for the prefix tokens and for the windows."""
        number = prefix.shape[1]
        if number == 0:
            return prefix, self.mixer(windows, window, mask)
        copies = windows.shape[0] // prefix.shape[0]
        windows = join_prefix(repeat(prefix, 'B ... -> (B W) ...', W=copies), windows)
        if mask is not None:
            mask = F.pad(mask, (number, 0, number if mask.shape[1] > 1 else 0, 0), value=True)
        windows = self.mixer(windows, window, mask)
        return reduce(windows[:, :number], '(B W) P C -> B P C', 'mean', W=copies), windows[:, number:]

    def _mask(self, hw_shape: tuple[int, int], padded: tuple[int, int], window: tuple[int, int],
              shift: tuple[int, int], device: torch.device) -> Tensor | None:
        """Boolean `(nW, N or 1, N)`, or None where every query may attend every key of its window."""
        real = neighbours = None
        if self.mask_padding and padded != hw_shape:
            real = padded_window_mask(hw_shape, padded, window, shift, device)
        if self.mask_shift and any(shift):
            neighbours = shifted_window_mask(padded, window, shift, device)
        if real is None or neighbours is None:
            return real if neighbours is None else neighbours
        # A row that excludes every key has no softmax; the queries of padding are cropped, so they may see all.
        return real & (neighbours | ~real.transpose(1, 2))
