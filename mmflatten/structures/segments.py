"""Panoptic segments: their numbers in COCO's PNG files and in mmdet's predicted maps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mmflatten.text import shorten
from mmflatten.untrusted.images import is_image

VOID = 0  # number of the pixels without a segment in a PNG file
INSTANCE_OFFSET = 1000  # of mmdet's maps: label + number of the instance * INSTANCE_OFFSET


class SegmentError(ValueError):
    """Error of panoptic annotations that contradict themselves or the classes."""


def segment_ids(colours: np.ndarray) -> np.ndarray:
    """Return the segment of each pixel of a COCO panoptic PNG file.

    Args:
        colours: (H, W, 3) uint8 RGB.

    Returns:
        (H, W) int32, `R + 256 G + 256^2 B`.
    """
    red, green, blue = np.moveaxis(colours.astype(np.int32), -1, 0)
    return red + 256 * green + 256**2 * blue


def segment_colours(ids: np.ndarray) -> np.ndarray:
    """Return the pixels (H, W, 3) uint8 RGB of a COCO panoptic PNG file; see `segment_ids`."""
    return np.stack([ids % 256, ids // 256 % 256, ids // 256**2], axis=-1).astype(np.uint8)


def predicted_segments(panoptic: np.ndarray, num_classes: int) -> dict[int, int]:
    """Return the segments of a predicted map with their labels.

    Pixels with a label of `num_classes` or more have no segment.

    Args:
        panoptic: (H, W) integers, `label + number of the instance * INSTANCE_OFFSET`.

    Returns:
        value in the map -> label.
    """
    segments = {}
    for value in np.unique(panoptic).tolist():
        label = value % INSTANCE_OFFSET
        if label < num_classes:
            segments[value] = label
    return segments


def read_segment_ids(
    file: str, hw_shape: Sequence[int], backend_args: dict | None = None
) -> np.ndarray:
    """Read a COCO panoptic PNG file; see `segment_ids`.

    Args:
        hw_shape: height and width of the image.
        backend_args: of MMEngine's `fileio`.

    Raises:
        SegmentError: the file cannot be decoded or has another size.
    """
    import mmcv
    from mmengine.fileio import get

    content = get(file, backend_args=backend_args)
    colours = mmcv.imfrombytes(content, channel_order='rgb') if is_image(content) else None
    if colours is None:
        raise SegmentError(
            f'panoptic PNG: {file} cannot be decoded as an image. Copy it again from its source.'
        )
    height, width = hw_shape[:2]
    if colours.shape[:2] != (height, width):
        raise SegmentError(
            f'panoptic PNG: expected {width} x {height} pixels as the image has, got'
            f' {colours.shape[1]} x {colours.shape[0]} in {file}. Check data_prefix and the files.'
        )
    return segment_ids(colours)


def check_segments(ids: np.ndarray, segments: Sequence[Mapping[str, Any]], file: str) -> None:
    """Compare the segments of a PNG file (H, W) with those of its annotation.

    Raises:
        SegmentError: one has a segment that the other lacks.
    """
    drawn = set(np.unique(ids).tolist()) - {VOID}
    listed = {segment['id'] for segment in segments}
    if drawn != listed:
        raise SegmentError(
            f'segments_info of {file}: expected the segments of the PNG file. Missing from the'
            f' annotation: {_listed(drawn - listed)}; missing from the file:'
            f' {_listed(listed - drawn)}.'
        )


def _listed(ids: Iterable[int]) -> str:
    return shorten([*map(str, sorted(ids))], 5) or 'none'


def category_ids(
    categories: Iterable[Mapping[str, Any]], classes: Sequence[str], file: str
) -> list[int]:
    """Return the id of the category of each class.

    Raises:
        SegmentError: the names differ, or two categories have the same one.
    """
    names = [category['name'] for category in categories]
    if sorted(names) != sorted(set(classes)):
        raise SegmentError(
            f'classes: expected the {len(names)} names of the categories in {file}, each once'
            f' ({shorten(sorted(names), 5)}), got {len(classes)} ({shorten(sorted(classes), 5)}).'
            ' Set metainfo=dict(classes=...) in train_, val_ and test_dataloader.'
        )
    by_name = {category['name']: category['id'] for category in categories}
    return [by_name[name] for name in classes]
