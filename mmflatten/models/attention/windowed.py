"""Mixers in windows."""

from __future__ import annotations

from torch import Tensor, nn

from mmflatten.models.layers import Windows


class Windowed(Windows):
    """A mixer that runs in every window of the map, and is itself called as a mixer.

    Args:
        mixer: inner mixer, called as `mixer(x, window_size, mask)`.
        window_size, shift, mask_padding: as in `Windows`.
    """

    def __init__(
        self,
        mixer: nn.Module,
        window_size: tuple[int | None, int | None] | None,
        *,
        shift: bool = False,
        mask_padding: bool = False,
    ) -> None:
        super().__init__(
            window_size,
            has_logits=getattr(mixer, 'has_logits', False),
            shift=shift,
            mask_padding=mask_padding,
        )
        self.mixer = mixer

    def forward(  # type: ignore[override]
        self, x: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None
    ) -> Tensor:
        if mask is not None:
            raise ValueError(
                f'mask: {type(self.mixer).__name__} already runs in windows and takes no mask, got'
                ' one. Remove linear_window.'
            )
        return super().forward(self.mixer, x, hw_shape)
