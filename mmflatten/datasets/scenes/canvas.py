"""Layered composition: sprites pasted back to front on a background, with exact visibility."""

from dataclasses import dataclass

import numpy as np

MASK_OPACITY = 0.5  # minimum opacity for a pixel to belong to a sprite
RIM_OPACITY = 0.15  # from here up to MASK_OPACITY a background pixel is a mixture without a label


@dataclass(frozen=True, eq=False)
class Sprite:
    """An object to paste.

    Attributes:
        opacity: (h, w) in [0, 1].
        colour: (h, w, 3) in [0, 255], or the shade in [0, 1] before `sample_colour`.
        label: class.
        number: number of the object in its source.
        top, left: corner on the canvas, which may lie outside.
    """

    opacity: np.ndarray
    colour: np.ndarray
    label: int
    number: int
    top: int = 0
    left: int = 0

    @property
    def solid(self) -> np.ndarray:
        """Mask of the pixels that belong to the sprite, (h, w) bool."""
        return self.opacity >= MASK_OPACITY


class Canvas:
    """A picture under construction.

    Attributes:
        image: (H, W, 3) float32 in [0, 255].
        owner: (H, W), index of the visible sprite in the order of pasting, -1 for the background.
    """

    def __init__(self, background: np.ndarray) -> None:
        self.image = background.astype(np.float32)
        self.owner = np.full(background.shape[:2], -1, dtype=np.int16)
        self._tinted = np.zeros(background.shape[:2], dtype=bool)
        self._solid_area: list[int] = []

    def paste(self, sprite: Sprite) -> None:
        """Paste a sprite on top, cropped to the canvas."""
        target, part = self.overlap(sprite)
        opacity = sprite.opacity[part][..., None]
        self.image[target] += opacity * (sprite.colour[part] - self.image[target])
        self.owner[target][sprite.solid[part]] = len(self._solid_area)
        self._tinted[target] |= sprite.opacity[part] >= RIM_OPACITY
        self._solid_area.append(int(sprite.solid.sum()))

    def overlap(self, sprite: Sprite) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
        """Return the slices of the canvas and of the sprite where the two overlap."""
        target, part = [], []
        for start, length, limit in zip(
            (sprite.top, sprite.left), sprite.opacity.shape, self.owner.shape
        ):
            first, last = min(max(start, 0), limit), max(min(start + length, limit), 0)
            target.append(slice(first, max(first, last)))
            part.append(slice(first - start, max(first, last) - start))
        return tuple(target), tuple(part)

    def visible_fractions(self, extra: Sprite | None = None) -> np.ndarray:
        """Return the visible fraction of each sprite's solid pixels, (n,), optionally with `extra`
        pasted on top.
        """
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
        """Mask of background pixels tinted by the soft edge of a sprite, (H, W) bool."""
        return self._tinted & (self.owner < 0)

    def masks(self) -> np.ndarray:
        """Return the visible pixels of each sprite, (n, H, W) bool, disjoint."""
        return self.owner[None] == np.arange(len(self._solid_area))[:, None, None]

    def picture(self) -> np.ndarray:
        """Return the finished picture, (H, W, 3) uint8."""
        return np.clip(np.rint(self.image), 0, 255).astype(np.uint8)
