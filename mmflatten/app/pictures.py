"""Pictures that a user uploads: which of them can be used, and what becomes of unusual ones."""
from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from PIL import Image

MIN_SIDE = 8
MAX_PIXELS = 16_000_000  # a larger one takes minutes and gigabytes in a segmentor


def check_picture(file: str) -> list[str]:
    """Notes on what reading a picture loses, as a rule none.

    Raises:
        ValueError: it is no picture, not whole, too small or too large.
    """
    name = Path(file).name
    try:
        with Image.open(file) as image:  # reads the header; the size is known before the pixels take memory
            width, height = image.size
            _check_size(name, width, height)
            image.load()
    except Image.DecompressionBombError as error:
        raise ValueError(f'{name} is too large: {error}') from error
    except Image.UnidentifiedImageError as error:
        raise ValueError(f'{name} is no picture that can be read') from error
    except (OSError, SyntaxError, EOFError) as error:  # what Pillow's readers raise
        raise ValueError(f'{name} is damaged or not whole: {error}') from error
    pixels = cv2.imread(file, cv2.IMREAD_UNCHANGED)
    if pixels is None:
        raise ValueError(f'{name} is of a kind ({image.format}) that OpenCV does not read; save it as PNG or JPEG')
    return _notes(name, pixels)


def _check_size(name: str, width: int, height: int) -> None:
    if min(width, height) < MIN_SIDE:
        raise ValueError(f'{name} has {width} x {height} pixels; it must be {MIN_SIDE} or more wide and high')
    if width * height > MAX_PIXELS:
        raise ValueError(f'{name} has {width} x {height} pixels, {width * height / 1e6:.0f} million; make it smaller '
                         f'than {MAX_PIXELS // 10**6} million')


def _notes(name: str, pixels: np.ndarray) -> list[str]:
    notes = []
    if pixels.dtype != np.uint8:
        notes.append(f'{name} has {8 * pixels.dtype.itemsize} bits a channel and is read with 8')
    if pixels.ndim == 2:
        notes.append(f'{name} is grey and is read as three equal channels')
    elif pixels.shape[2] == 4:
        notes.append(f'{name} has an alpha channel, which is left out')
    return notes
