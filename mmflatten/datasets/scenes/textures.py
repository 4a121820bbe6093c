"""Backgrounds of panoptic scenes: regions of a photograph and of dark textures."""

from collections.abc import Callable

import numpy as np

NUM_REGIONS = (2, 4)  # of a background, each of another class
PERIOD = (0.06, 0.12)  # of a texture, relative to the side of the scene
MIN_PERIOD = 4  # pixels
# Objects are brighter, and contrast with both colours of a texture.
COLOUR_RANGE = (20, 130)
MIN_STEP = 45  # RGB distance between the two colours of a texture
DOT_RADIUS = 0.33  # relative to the period


def _stripes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x % 1 < 0.5


def _checks(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (x % 1 < 0.5) ^ (y % 1 < 0.5)


def _dots(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.hypot(x % 1 - 0.5, y % 1 - 0.5) < DOT_RADIUS


# Pattern of each texture on coordinates in periods. Label 0 is the photograph.
TEXTURES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = dict(
    stripes=_stripes, checks=_checks, dots=_dots
)
STUFF_CLASSES = ('photograph', *TEXTURES)


def sample_stuff(
    rng: np.random.Generator, photograph: np.ndarray, side: int
) -> tuple[np.ndarray, np.ndarray]:
    """Divide a photograph into regions and paint each with the texture of another class.

    Args:
        photograph: (H, W, 3).
        side: length in pixels that the periods are relative to.

    Returns:
        The picture (H, W, 3) float32 and the label of each pixel in `STUFF_CLASSES`, (H, W).
    """
    low, high = NUM_REGIONS
    number = int(rng.integers(low, high + 1))
    labels = rng.permutation(len(STUFF_CLASSES))[:number]
    stuff = labels[_sample_regions(rng, photograph.shape[:2], number)]
    picture = photograph.astype(np.float32)
    for label in sorted(labels.tolist()):
        if label == 0:
            continue
        painted = _sample_texture(rng, STUFF_CLASSES[label], photograph.shape[:2], side)
        picture = np.where((stuff == label)[..., None], painted, picture)
    return picture, stuff


def _sample_regions(rng: np.random.Generator, hw_shape: tuple[int, int], number: int) -> np.ndarray:
    """Return the nearest of random points for each pixel, (H, W) in [0, number)."""
    height, width = hw_shape
    rows, columns = np.mgrid[:height, :width]
    # One point in each of as many sectors around the middle, so that no region is tiny
    angles = rng.uniform(0, 2 * np.pi) + 2 * np.pi * np.arange(number) / number
    radius = rng.uniform(0.15, 0.35, size=number)
    top = height * (0.5 + radius * np.sin(angles))
    left = width * (0.5 + radius * np.cos(angles))
    distances = np.hypot(rows[..., None] - top, columns[..., None] - left)
    return distances.argmin(-1)


def _sample_texture(
    rng: np.random.Generator, name: str, hw_shape: tuple[int, int], side: int
) -> np.ndarray:
    """Sample a texture of two dark colours, (H, W, 3) float32."""
    rows, columns = np.mgrid[: hw_shape[0], : hw_shape[1]].astype(np.float64)
    period = max(MIN_PERIOD, side * rng.uniform(*PERIOD))
    angle = rng.uniform(0, np.pi)
    shift = rng.uniform(0, 1, size=2)
    x = (columns * np.cos(angle) + rows * np.sin(angle)) / period + shift[0]
    y = (rows * np.cos(angle) - columns * np.sin(angle)) / period + shift[1]
    inside = TEXTURES[name](x, y)
    dark = rng.uniform(*COLOUR_RANGE, size=3)
    other = rng.uniform(*COLOUR_RANGE, size=3)
    while np.linalg.norm(dark - other) < MIN_STEP:
        other = rng.uniform(*COLOUR_RANGE, size=3)
    return np.where(inside[..., None], dark, other).astype(np.float32)
