"""What lies over a test image: truth and predictions as outlines, maps or text."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np

from mmflatten.results.reading import Results

Encode = Callable[..., str]  # pixels (H, W, 3 or 4) as a data URL


@dataclass
class Layer:
    """What a toggle shows: `text` below the picture, `picture` or `shapes` (with `path`, `name`, `x`, `y`) over it.

    Attributes:
        kind: truth, prediction or error.
        run: index of the run that predicted it; 0 for the truth.
    """

    kind: str
    title: str
    run: int = 0
    text: str = ''
    picture: str = ''
    shapes: list[dict[str, Any]] = field(default_factory=list)


def palette_of(results: Results, number: int) -> list:
    """The data set's colours, else colours spread around the wheel."""
    wheel = np.uint8([[(180 * label // max(number, 1), 160, 220) for label in range(number)]])
    return results.origin.get('palette') or cv2.cvtColor(wheel, cv2.COLOR_HSV2RGB)[0].tolist()
