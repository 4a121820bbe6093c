"""Checks of uploaded images, and drawings of maps."""

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from mmflatten.explain.drawings import draw_attention
from mmflatten.untrusted.images import IMAGE_FORMATS, problem_of_image

DPI = 100
MIN_SIDE = 8
MAX_PIXELS = 16_000_000  # larger images take minutes and gigabytes in a segmentor


def check_picture(file: str) -> None:
    """Raise ValueError if a file is no image of usable size. Only its header is read, not the
    pixels.
    """
    name = Path(file).name
    if (problem := problem_of_image(file)) is not None:
        raise ValueError(f'{name}: {problem}.')
    try:
        with Image.open(file, formats=IMAGE_FORMATS) as image:
            width, height = image.size
    except (OSError, Image.DecompressionBombError) as error:
        raise ValueError(f'{name}: {error}.') from error
    if min(width, height) < MIN_SIDE or width * height > MAX_PIXELS:
        raise ValueError(
            f'{name}: expected sides of at least {MIN_SIDE} pixels and at most'
            f' {MAX_PIXELS // 10**6} million pixels, got {width} x {height}.'
        )


def attention_pixels(
    picture: np.ndarray, weights: np.ndarray | None, query: tuple[float, float] | None, side: int
) -> np.ndarray:
    """Draw one map of `attention_figure`, or the picture alone, as RGB pixels with `side` as the
    longer side.
    """
    height, width = picture.shape[:2]
    scale = side / max(height, width) / DPI
    figure = Figure(figsize=(max(1 / DPI, width * scale), max(1 / DPI, height * scale)), dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    panel = figure.add_axes((0, 0, 1, 1))
    panel.axis('off')
    draw_attention(panel, picture, weights, query)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
