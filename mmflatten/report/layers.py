"""Layers over a test image: truth and predictions as outlines, maps or text."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np

from mmflatten.results.reading import Results

Encode = Callable[..., str]  # pixels (H, W, 3 or 4) to a data URL


@dataclass
class SampleLayer:
    """One layer, which a toggle of the page shows or hides.

    Attributes:
        kind: truth, prediction or error.
        run: index of the run of a prediction; 0 for the truth.
        text: caption below the image.
        picture: data URL of an image drawn over the test image.
        shapes: outlines, with `path`, `name`, `x` and `y`.
    """

    kind: str
    title: str
    run: int = 0
    text: str = ''
    picture: str = ''
    shapes: list[dict[str, Any]] = field(default_factory=list)


def palette_of(results: Results, number: int) -> list:
    """Return the colours of the data set, or evenly spaced hues if they are unknown."""
    wheel = np.uint8([[(180 * label // max(number, 1), 160, 220) for label in range(number)]])
    return results.origin.get('palette') or cv2.cvtColor(wheel, cv2.COLOR_HSV2RGB)[0].tolist()
