"""Checks of segmentations of COCO files before drawing, because `pycocotools` checks neither
numbers nor sizes.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# sides of the image that a polygon may lie outside, as in tiles with the labels of their whole
MARGIN = 10
LONGEST_OUTLINE = 10**6  # pixels; drawing needs 100 bytes for each


def can_be_drawn(segmentation: Any, image: Mapping[str, Any]) -> bool:
    """Return True if polygons or run lengths fit their image; others crash pycocotools, or exhaust
    the memory.

    Args:
        image: entry of the COCO file, with `width` and `height`.
    """
    try:
        height, width = image['height'], image['width']
        if isinstance(segmentation, dict):
            return _runs_fit(segmentation, height, width)
        limit = min(MARGIN * max(height, width), 10**7)
        return isinstance(segmentation, list) and all(
            _fits(polygon, limit) for polygon in segmentation
        )
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return False


def _runs_fit(segmentation: Mapping[str, Any], height: int, width: int) -> bool:
    counts = segmentation['counts']
    runs = counts if isinstance(counts, list) else run_lengths(counts)
    has_size = segmentation['size'] == [height, width]
    # pycocotools counts pixels in 32 bits
    return has_size and min(runs) >= 0 and sum(runs) == height * width < 2**31


def _fits(polygon: Sequence[float], limit: float) -> bool:
    low, high = min(polygon), max(polygon)
    # NaN is neither lowest nor highest
    if not (-limit <= low and high <= limit and math.isfinite(sum(polygon))):
        return False
    # Most outlines are short enough even if each of their lines were as long as the whole.
    if len(polygon) * (high - low) <= LONGEST_OUTLINE:
        return True
    points = np.reshape(polygon, (-1, 2))
    return np.abs(points - np.roll(points, 1, 0)).max(1).sum() <= LONGEST_OUTLINE


def box_of_mask(segmentation: Any) -> list[float]:
    """Return the [x, y, width, height] around polygons or run lengths that `can_be_drawn`."""
    if isinstance(segmentation, dict):
        from pycocotools import mask  # comes with mmdet

        if isinstance(segmentation['counts'], list):
            segmentation = mask.frPyObjects(segmentation, *segmentation['size'])
        return mask.toBbox(segmentation).tolist()
    x, y = [], []
    for part in segmentation:
        x += part[0::2]
        y += part[1::2]
    return [min(x), min(y), max(x) - min(x), max(y) - min(y)]


def overlaps(box: Sequence[float], image: Mapping[str, Any]) -> bool:
    """Return True if a box [x, y, width, height] has an area in an image, whose entry states its
    size.
    """
    x, y, width, height = box
    in_columns = 0 < x + width and x < (image.get('width') or 0)
    in_rows = 0 < y + height and y < (image.get('height') or 0)
    return in_columns and in_rows


def run_lengths(text: str | bytes) -> list[int]:
    """Decode compressed run lengths: 5 bits in each letter, and differences to the last number but
    one.

    Raises ValueError, IndexError or TypeError for anything else.
    """
    content = text if isinstance(text, bytes) else str.encode(text, 'ascii')
    codes = np.frombuffer(content, np.uint8).astype(np.int64) - ord('0')
    ends = np.flatnonzero(codes & 32 == 0)
    starts = np.append(0, ends[:-1] + 1)
    are_letters = codes.min() >= 0 and codes.max() <= 63
    is_complete = ends[-1] == len(codes) - 1
    if not are_letters or not is_complete or (ends - starts).max() > 6:
        raise ValueError('expected run lengths as COCO compresses them')
    shifts = 5 * (np.arange(len(codes)) - np.repeat(starts, ends - starts + 1))
    runs = np.add.reduceat((codes & 31) << shifts, starts)
    # The fifth bit of the last letter is the sign, as in two's complement.
    is_negative = codes[ends] & 16 > 0
    runs[is_negative] -= 2 << (shifts[ends][is_negative] + 4)
    for first in (1, 2):
        runs[first::2] = runs[first::2].cumsum()
    return runs.tolist()
