"""Layered composition: sprites pasted back to front on a background, with exact visibility."""
from dataclasses import dataclass

import numpy as np

MASK_OPACITY = 0.5  # a pixel belongs to the sprite that covers at least this much of it
RIM_OPACITY = 0.15  # below MASK_OPACITY and from here on, a pixel is a mixture that belongs to nobody


@dataclass(frozen=True, eq=False)
class Sprite:
    """An object to paste: ``opacity`` (h, w) in [0, 1], ``colour`` (h, w, 3) in [0, 255], its class, its number in its
    source, and its top left corner on the canvas, which may lie outside. Until it gets its colour, ``colour`` is its
    shade in [0, 1].

    ``dataclasses.replace(sprite, left=...)`` is the same object elsewhere, so a second view is a second composition.
    """

    opacity: np.ndarray
    colour: np.ndarray
    label: int
    number: int
    top: int = 0
    left: int = 0

    @property
    def solid(self) -> np.ndarray:
        """Where the sprite owns its pixels: (h, w) bool."""
        return self.opacity >= MASK_OPACITY


class Canvas:
    """A picture under construction and, for each of its pixels, who owns it.

    ``image`` is (H, W, 3) float32 in [0, 255]; ``owner`` is (H, W), -1 for the background and otherwise the number of
    the sprite in the order of pasting; ``rim`` (H, W) marks background pixels that a sprite's soft edge tints.
    """

    def __init__(self, background: np.ndarray) -> None:
        self.image = background.astype(np.float32)
        self.owner = np.full(background.shape[:2], -1, dtype=np.int16)
        self._tinted = np.zeros(background.shape[:2], dtype=bool)
        self._solid_area: list[int] = []

    def paste(self, sprite: Sprite) -> None:
        """Put a sprite on top of everything pasted so far; what lies outside the canvas is cut off."""
        target, part = self.overlap(sprite)
        opacity = sprite.opacity[part][..., None]
        self.image[target] += opacity * (sprite.colour[part] - self.image[target])
        self.owner[target][sprite.solid[part]] = len(self._solid_area)
        self._tinted[target] |= sprite.opacity[part] >= RIM_OPACITY
        self._solid_area.append(int(sprite.solid.sum()))

    def overlap(self, sprite: Sprite) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
        """Index of the canvas under the sprite, and of the sprite above the canvas; both have the same shape."""
        target, part = [], []
        for start, length, limit in zip((sprite.top, sprite.left), sprite.opacity.shape, self.owner.shape):
            first, last = min(max(start, 0), limit), max(min(start + length, limit), 0)
            target.append(slice(first, max(first, last)))
            part.append(slice(first - start, max(first, last) - start))
        return tuple(target), tuple(part)

    def visible_fractions(self, extra: Sprite | None = None) -> np.ndarray:
        """Visible share of every sprite's solid pixels, (n,); with ``extra``, as if that were pasted on top."""
        owner, areas = self.owner, list(self._solid_area)
        if extra is not None:
            target, part = self.overlap(extra)
            owner = owner.copy()
            owner[target][extra.solid[part]] = len(areas)
            areas.append(int(extra.solid.sum()))
        visible = np.bincount(owner[owner >= 0], minlength=len(areas))
        return visible / np.maximum(areas, 1)

    @property
    def rim(self) -> np.ndarray:
        """Background pixels tinted by a soft edge: (H, W) bool."""
        return self._tinted & (self.owner < 0)

    def masks(self) -> np.ndarray:
        """Visible pixels of every sprite: (n, H, W) bool, disjoint."""
        return self.owner[None] == np.arange(len(self._solid_area))[:, None, None]

    def picture(self) -> np.ndarray:
        """The finished picture: (H, W, 3) uint8."""
        return np.clip(np.rint(self.image), 0, 255).astype(np.uint8)
