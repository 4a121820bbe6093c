"""Rendering of 8 x 8 handwritten digits as smooth, rotated, anti-aliased strokes of any size."""

import cv2
import numpy as np

FIELD_SIZE = 160  # pixels; the 8 x 8 image with its frame is enlarged to this size
FRAME = 1
SHARPENING = 2.0


def ink_field(image: np.ndarray) -> np.ndarray:
    """Compute the smooth ink density, about 0 to 1, (160, 160) float32, of an (8, 8) image in [0,
    1].
    """
    framed = cv2.copyMakeBorder(image, FRAME, FRAME, FRAME, FRAME, cv2.BORDER_CONSTANT, value=0)
    field = cv2.resize(framed, (FIELD_SIZE, FIELD_SIZE), interpolation=cv2.INTER_CUBIC)
    pixel = FIELD_SIZE / (image.shape[0] + 2 * FRAME)
    # A small blur hides the 8 x 8 grid. Sharpening against a wide blur lets one threshold fit all
    # stroke widths: faint strokes stay connected, and the holes of a broad 6 or 9 stay open.
    field = cv2.GaussianBlur(field, (0, 0), sigmaX=pixel / 3)
    wide = cv2.GaussianBlur(field, (0, 0), sigmaX=1.2 * pixel)
    return np.maximum(field + SHARPENING * (field - wide), 0)


def render_glyph(
    image: np.ndarray,
    height: float,
    angle: float = 0.0,
    slant: float = 0.0,
    threshold: float = 0.48,
) -> np.ndarray:
    """Render the opacity of a digit, (h, w) float32 in [0, 1], with an anti-aliased edge, tightly
    cropped.

    Args:
        height: of the upright 8 x 8 image, in pixels.
        angle: in degrees, counter-clockwise.
        slant: horizontal shift per unit of height.
        threshold: ink density at the edge; a lower value makes the stroke broader.
    """
    scale = height / (FIELD_SIZE * image.shape[0] / (image.shape[0] + 2 * FRAME))
    turn = np.deg2rad(angle)
    rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    linear = scale * rotation @ np.array([[1.0, -slant], [0.0, 1.0]])
    side = int(np.ceil(scale * FIELD_SIZE * (np.sqrt(2) + abs(slant)))) + 4
    # The centre of the field maps to the centre of the canvas, in pixel centres.
    offset = (side - 1) / 2 - linear @ np.full(2, (FIELD_SIZE - 1) / 2)
    field = cv2.warpAffine(
        ink_field(image), np.column_stack([linear, offset]), (side, side), flags=cv2.INTER_LINEAR
    )
    opacity = antialias(field, threshold, 0.04)
    return opacity[tight_window(opacity)]


def antialias(field: np.ndarray, threshold: float, min_slope: float) -> np.ndarray:
    """Compute the opacity, (H, W) float32 in [0, 1], of the region where a smooth field is above a
    threshold.
    """
    # The field divided by its gradient is a distance in pixels, so the edge is one pixel wide at
    # every scale.
    slope = np.hypot(*np.gradient(field))
    distance = (field - threshold) / np.maximum(slope, min_slope)
    return np.clip(distance + 0.5, 0, 1).astype(np.float32)


def tight_window(mask: np.ndarray) -> tuple[slice, slice]:
    """Return the rows and columns of the smallest window with all values of (H, W) that are not
    0.
    """
    rows = np.flatnonzero(mask.any(axis=1))
    columns = np.flatnonzero(mask.any(axis=0))
    return (
        slice(int(rows[0]), int(rows[-1]) + 1),
        slice(int(columns[0]), int(columns[-1]) + 1),
    )
