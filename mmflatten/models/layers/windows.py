"""Windows of the map of tokens, and a residual branch whose mixer runs in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from einops import rearrange, reduce, repeat
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.layers.residual import Residual
from mmflatten.models.layers.tokens import join_prefix, split_prefix
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

Mixer = Callable[[Tensor, tuple[int, int], Tensor | None], Tensor]


class Windows(BaseModule):
    """Call a mixer on every window of the map. The mixer receives each window as its map.

    The map is zero-padded at the right and the bottom to whole windows. If one window covers an
    axis of the map, there is no shift along either axis, as in the official Swin. Prefix tokens,
    such as a class token, are added to every window, and their outputs are averaged over the
    windows.

    Args:
        window_size: `(h, w)`, where None stands for the whole side of the map. None instead of the
            pair makes the whole map one window.
        has_logits: `has_logits` of the mixer.
        shift: roll the map by half a window first (every second block of Swin).
        mask_padding: exclude padding from attention. In mixers without logits padding is always
            excluded, because it would contribute to the sums over all keys.
    """

    def __init__(
        self,
        window_size: tuple[int | None, int | None] | None,
        *,
        has_logits: bool,
        shift: bool = False,
        mask_padding: bool = False,
    ) -> None:
        super().__init__()
        self.window_size = None if window_size is None else tuple(window_size)
        self.shift = shift
        # Softmax windows exclude pairs of tokens that became neighbours by the roll; FLatten's
        # linear windows do not.
        self.mask_shift = has_logits
        self.mask_padding = mask_padding or not has_logits

    def forward(self, mixer: Mixer, x: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        """Mix the tokens of a map.

        Args:
            mixer: called as `mixer(windows, window_size, mask)`.
            x: tokens `(B, N, ...)`. `N` exceeds `H * W` by the number of prefix tokens.
            hw_shape: `(H, W)`.

        Returns:
            `(B, N, C)`.
        """
        if self.window_size is None:
            return mixer(x, hw_shape, None)
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
        mask = self._mask((H, W), padded=padded, window=window, shift=shift, device=x.device)
        copies = number[0] * number[1]
        prefix, windows = self._mix(
            mixer, prefix=prefix, windows=windows, window=window, mask=mask, copies=copies
        )
        x = roll_and_crop(window_reverse(windows, window, padded), (H, W), shift)
        return join_prefix(prefix, rearrange(x, 'B H W C -> B (H W) C'))

    def _distances(
        self, window: tuple[int, int], number: Sequence[int], device: torch.device
    ) -> Shift | None:
        """Rows and columns by which the map is rolled; None for no roll."""
        distances = (window[0] // 2, window[1] // 2)
        if not (self.shift and any(distances)):
            return None
        if any(certain(count <= 1) for count in number):
            return None
        if all(certain(count > 1) for count in number):
            return distances
        # With symbolic sizes the graph decides.
        rows, cols = (
            torch.scalar_tensor(count, device=device, dtype=torch.long) > 1 for count in number
        )
        is_rolled = rows & cols
        return distances[0] * is_rolled, distances[1] * is_rolled

    def _mix(
        self,
        mixer: Mixer,
        *,
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
            return prefix, mixer(windows, window, mask)
        windows = join_prefix(repeat(prefix, 'B ... -> (B W) ...', W=copies), windows)
        if mask is not None:
            # Prefix tokens are visible to all queries, and see all keys.
            rows = number if mask.shape[1] > 1 else 0
            mask = F.pad(mask, (number, 0, rows, 0), value=True)
        windows = mixer(windows, window, mask)
        mean = reduce(windows[:, :number], '(B W) P C -> B P C', 'mean', W=copies)
        return mean, windows[:, number:]

    def _mask(
        self,
        hw_shape: tuple[int, int],
        *,
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


class WindowedResidual(Residual):
    """`Residual` whose mixer runs in windows. The names of its weights are those of `Residual`.

    Args:
        fn: token mixer, called as `fn(windows, window_size, mask)`.
        window_size, mask_padding: as in `Windows`.
        norm, drop_path, layer_scale: as in `Residual`. The padding of windows is zero after the
            norm.
    """

    def __init__(
        self,
        fn: nn.Module,
        window_size: tuple[int | None, int | None],
        *,
        mask_padding: bool = False,
        norm: nn.Module | None = None,
        drop_path: float = 0.0,
        layer_scale: tuple[int, float] | None = None,
    ) -> None:
        super().__init__(fn, norm, drop_path, layer_scale)
        self.windows = Windows(
            window_size, has_logits=getattr(fn, 'has_logits', False), mask_padding=mask_padding
        )

    def branch(
        self, x_BNC: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None
    ) -> Tensor:
        if mask is not None:
            raise ValueError('mask: expected None, because windows have masks of their own.')
        return self.windows(self.fn, self.norm(x_BNC), hw_shape)
