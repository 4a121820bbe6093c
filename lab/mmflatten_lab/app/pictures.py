"""Checks of uploaded images, and drawings of maps."""
from pathlib import Path

import cv2
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from mmflatten.console import quiet_decoders
from mmflatten.explain.drawings import draw_attention
from mmflatten.files import IMAGE_FORMATS, problem_of

DPI = 100
MIN_SIDE = 8
MAX_PIXELS = 16_000_000  # larger images take minutes and gigabytes in a segmentor


def check_picture(file: str) -> list[str]:
    """Return notes on information that is lost when an image is read. Raises ValueError if it cannot be used."""
    name = Path(file).name
    try:
        if (problem := problem_of(file)) is not None:
            raise ValueError(f'{name}: {problem}.')
        with Image.open(file, formats=IMAGE_FORMATS) as image:  # reads only the header, not the pixels
            width, height = image.size
            if min(width, height) < MIN_SIDE:
                raise ValueError(f'{name}: expected sides of at least {MIN_SIDE} pixels, got {width} x {height}.')
            if width * height > MAX_PIXELS:
                raise ValueError(f'{name}: expected at most {MAX_PIXELS // 10**6} million pixels, got {width} x '
                                 f'{height}.')
            image.load()
    except Image.UnidentifiedImageError as error:
        raise ValueError(f'{name}: not a readable image.') from error
    except (OSError, SyntaxError, EOFError, Image.DecompressionBombError) as error:  # raised by Pillow
        raise ValueError(f'{name}: damaged, truncated or too large ({error}).') from error
    with quiet_decoders():
        pixels = cv2.imread(file, cv2.IMREAD_UNCHANGED)
    if pixels is None:
        raise ValueError(f'{name}: format not supported, got {image.format}. Save it as PNG or JPEG.')
    notes = []
    if pixels.dtype != np.uint8:
        notes.append(f'{name} has {8 * pixels.dtype.itemsize} bits per channel and is read with 8 bits')
    if pixels.ndim == 2:
        notes.append(f'{name} is greyscale and is read as three equal channels')
    elif pixels.shape[2] == 4:
        notes.append(f'{name} has an alpha channel, which is ignored')
    return notes


def attention_pixels(picture: np.ndarray, weights: np.ndarray | None, query: tuple[float, float] | None,
                     side: int) -> np.ndarray:
    """Draw one map of `attention_figure`, or the picture alone, as RGB pixels with `side` as the longer side."""
    height, width = picture.shape[:2]
    scale = side / max(height, width) / DPI
    figure = Figure(figsize=(max(1 / DPI, width * scale), max(1 / DPI, height * scale)), dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    panel = figure.add_axes((0, 0, 1, 1))
    panel.axis('off')
    draw_attention(panel, picture, weights, query)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
