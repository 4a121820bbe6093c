"""From an 8 x 8 handwritten digit to a smooth, turned, anti-aliased stroke of any size."""
import cv2
import numpy as np

FIELD_SIZE = 160  # the 8 x 8 image, framed to 10 x 10, is enlarged to this many pixels
FRAME = 1
SHARPENING = 2.0


def ink_field(image: np.ndarray) -> np.ndarray:
    """Smooth ink density, about 0 to 1, (160, 160) float32, of an (8, 8) image in [0, 1]; the rim is empty."""
    framed = cv2.copyMakeBorder(image, FRAME, FRAME, FRAME, FRAME, cv2.BORDER_CONSTANT, value=0)
    field = cv2.resize(framed, (FIELD_SIZE, FIELD_SIZE), interpolation=cv2.INTER_CUBIC)
    pixel = FIELD_SIZE / (image.shape[0] + 2 * FRAME)
    # A small blur melts the stairs of the 8 x 8 grid. Sharpening against a wide one lets one threshold fit all pens:
    # faint strokes stay whole, and the holes of a 6 or 9 drawn with a broad pen stay open.
    field = cv2.GaussianBlur(field, (0, 0), sigmaX=pixel / 3)
    return np.maximum(field + SHARPENING * (field - cv2.GaussianBlur(field, (0, 0), sigmaX=1.2 * pixel)), 0)


def render_glyph(image: np.ndarray, height: float, angle: float = 0., slant: float = 0.,
                 threshold: float = 0.48) -> np.ndarray:
    """Opacity (h, w) float32 in [0, 1] of a digit drawn as a stroke with a sharp, anti-aliased edge, tightly cropped.

    ``height`` is that of the upright 8 x 8 image in pixels, ``angle`` is in degrees counter-clockwise, ``slant`` the
    sideways shift per unit of height, and ``threshold`` the ink density at the edge: a lower one gives a thicker pen.
    """
    field = ink_field(image)
    scale = height / (FIELD_SIZE * image.shape[0] / (image.shape[0] + 2 * FRAME))
    turn = np.deg2rad(angle)
    rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    linear = scale * rotation @ np.array([[1., -slant], [0., 1.]])
    side = int(np.ceil(scale * FIELD_SIZE * (np.sqrt(2) + abs(slant)))) + 4
    # Pixel centres: the middle of the field goes to the middle of the canvas.
    offset = (side - 1) / 2 - linear @ np.full(2, (FIELD_SIZE - 1) / 2)
    warped = cv2.warpAffine(field, np.column_stack([linear, offset]), (side, side), flags=cv2.INTER_LINEAR)
    slope = np.hypot(*np.gradient(warped))
    # Density divided by its slope is a distance in pixels, so the edge is one pixel wide at every scale.
    opacity = np.clip((warped - threshold) / np.maximum(slope, 0.04) + 0.5, 0, 1).astype(np.float32)
    rows, columns = np.flatnonzero(opacity.any(axis=1)), np.flatnonzero(opacity.any(axis=0))
    return opacity[rows[0]:rows[-1] + 1, columns[0]:columns[-1] + 1]
