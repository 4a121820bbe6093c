"""Differences between the detections of two runtimes, matched by label and overlap."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

LEAST_IOU = 0.5  # of a box and its match
Arrays = Mapping[str, np.ndarray]


def image_errors(ours: Arrays, theirs: Arrays, threshold: float, most: int) -> list[float]:
    """Return the error of each detection of one image in either result.

    The error of a matched pair is the largest of: the difference of the scores, that of the
    corners relative to the largest corner, and the fraction of the image in which the masks differ.
    The error of a detection without a match is the distance of its score from the lowest score that
    the other result could hold: rounding may move such a detection across the threshold.

    Args:
        ours, theirs: `boxes` (K, 4), `scores` (K,), `labels` (K,) and perhaps `masks` (K, H, W).
        threshold: lowest score of a detection.
        most: largest number of detections, -1 for any.
    """
    ours = _present(ours)
    theirs = _present(theirs)
    pairs = match(ours, theirs)
    scale = max(float(np.abs(theirs['boxes']).max(initial=0)), 1e-12)
    errors = [_pair_error(ours, theirs, pair, scale) for pair in pairs]
    matched = np.array(pairs, dtype=int).reshape(-1, 2).T
    for place, (one, other) in enumerate(((ours, theirs), (theirs, ours))):
        scores = np.delete(one['scores'], matched[place])
        errors += (scores - _lowest(other['scores'], threshold, most)).clip(min=0).tolist()
    return errors


def match(ours: Arrays, theirs: Arrays) -> list[tuple[int, int]]:
    """Match detections of the same label by the highest IoU, the best of `theirs` first."""
    overlaps = iou(theirs['boxes'], ours['boxes'])
    overlaps[theirs['labels'][:, None] != ours['labels']] = 0
    pairs = []
    for their_index in np.argsort(-theirs['scores'], kind='stable'):
        if not len(ours['scores']):
            break
        our_index = int(overlaps[their_index].argmax())
        if overlaps[their_index, our_index] >= LEAST_IOU:
            pairs.append((our_index, int(their_index)))
            overlaps[:, our_index] = 0
    return pairs


def iou(boxes_N4: np.ndarray, others_M4: np.ndarray) -> np.ndarray:
    """Return the IoU of all pairs of boxes, `(N, M)`."""
    low = np.maximum(boxes_N4[:, None, :2], others_M4[:, :2])
    high = np.minimum(boxes_N4[:, None, 2:], others_M4[:, 2:])
    common = (high - low).clip(min=0).prod(-1)
    areas = (boxes_N4[:, 2:] - boxes_N4[:, :2]).prod(-1)
    other_areas = (others_M4[:, 2:] - others_M4[:, :2]).prod(-1)
    return common / (areas[:, None] + other_areas - common).clip(min=1e-12)


def _pair_error(ours: Arrays, theirs: Arrays, pair: tuple[int, int], scale: float) -> float:
    our_index, their_index = pair
    score = abs(ours['scores'][our_index] - theirs['scores'][their_index])
    corners = np.abs(ours['boxes'][our_index] - theirs['boxes'][their_index]).max() / scale
    error = max(float(score), float(corners))
    if 'masks' in theirs:
        differs = ours['masks'][our_index] != theirs['masks'][their_index]
        error = max(error, float(differs.mean()))
    return error


def _present(result: Arrays) -> dict[str, np.ndarray]:
    is_present = result['labels'] >= 0
    return {name: value[is_present] for name, value in result.items()}


def _lowest(scores: np.ndarray, threshold: float, most: int) -> float:
    """Return the score above which a detection would be in a result."""
    if 0 < most <= len(scores):
        return max(threshold, float(scores.min()))
    return threshold
