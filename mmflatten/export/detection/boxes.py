"""Steps that the exported heads share, for a batch of images: candidates, suppression, results.

They compute what mmdet's `predict_by_feat` computes for one image after another. Shapes depend on
the sizes of batch and image only; candidates that mmdet would drop have the score `ABSENT`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mmflatten.export.detection.suppression import (
    ABSENT,
    LOWEST_SCORE,
    best_scores,
    keep_boxes,
)
from mmflatten.export.wrappers import ExportError
from mmflatten.ops.sizes import operand

PADDING_LABEL = -1


class Candidates(NamedTuple):
    """Boxes of a batch, `(B, N, 4)` in pixels, with scores and labels `(B, N)`."""

    boxes: Tensor
    scores: Tensor
    labels: Tensor


class Suppression(NamedTuple):
    """Settings of a `test_cfg` for the selection of boxes.

    Attributes:
        iou_threshold: highest IoU of two boxes of a class.
        max_boxes: largest number of boxes of an image; -1 keeps all.
        class_agnostic: boxes of other classes suppress too.
    """

    iou_threshold: float
    max_boxes: int
    class_agnostic: bool

    @classmethod
    def of(cls, test_cfg: Mapping[str, Any], where: str) -> Suppression:
        """Read the settings.

        Raises:
            ExportError: ONNX has no operator for the suppression.
        """
        options = dict(test_cfg.get('nms') or {})
        kind = options.get('type', 'nms')
        if kind != 'nms':
            raise ExportError(
                f'{where}.nms.type: expected nms, which ONNX has, got {kind}. Use nms or'
                ' --features.'
            )
        return cls(
            iou_threshold=float(options.get('iou_threshold', options.get('iou_thr', 0.5))),
            max_boxes=int(test_cfg.get('max_per_img', -1)),
            class_agnostic=bool(options.get('class_agnostic', False)),
        )


def best_candidates(
    scores_BNC: Tensor, threshold: float, number: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Select the best pairs of prior and class with scores above a threshold.

    Returns scores, priors and labels, `(B, K)` each. Fewer than K pairs are filled up with the
    score `ABSENT`. K is `number`, or the number of pairs if that is smaller or `number` is not
    positive.
    """
    scores_BP = scores_BNC.flatten(1)
    scores_BP = torch.where(scores_BP > threshold, scores_BP, ABSENT)
    scores_BK, index_BK = top(scores_BP, number)
    num_classes = scores_BNC.shape[-1]
    return scores_BK, index_BK // num_classes, index_BK % num_classes


def top(scores_BN: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Return the highest scores and their indices, at most `number` if that is positive."""
    most = scores_BN.shape[1]
    return best_scores(scores_BN, most if number <= 0 else torch.sym_min(number, most))


def take(values_BNX: Tensor, index_BK: Tensor) -> Tensor:
    """Return the rows `(B, K, X)` of each image."""
    width = values_BNX.shape[-1]
    return values_BNX.gather(1, index_BK[..., None].expand(-1, -1, width))


def decode_deltas(
    priors: Tensor,
    deltas: Tensor,
    coder: Any,
    size: tuple[int, int] | None = None,
) -> Tensor:
    """Return the boxes of regressed deltas, `(..., 4)`, as mmdet's `DeltaXYWHBBoxCoder` decodes.

    Source: R-CNN (arXiv:1311.2524), appendix C. Boxes are clipped to the image if the coder does.

    Args:
        priors: boxes `(..., 4)` in pixels: left, top, right, bottom.
        deltas: shifts of the centre in sizes of the prior, and logarithms of the scales.
        coder: mmdet's coder, for means, deviations and clipping.
        size: (H, W) of the image in pixels.
    """
    deltas = deltas * deltas.new_tensor(coder.stds) + deltas.new_tensor(coder.means)
    center = (priors[..., :2] + priors[..., 2:]) * 0.5
    sides = priors[..., 2:] - priors[..., :2]
    largest = abs(math.log(16 / 1000))
    center = center + sides * deltas[..., :2]
    half = sides * deltas[..., 2:].clamp(-largest, largest).exp() * 0.5
    boxes = torch.cat((center - half, center + half), dim=-1)
    return clip(boxes, size) if coder.clip_border and size is not None else boxes


def clip(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Move the corners of boxes `(..., 4)` into an image of (H, W) pixels."""
    height, width = size
    x = torch.minimum(boxes[..., 0::2].clamp(min=0), limit(width, boxes))
    y = torch.minimum(boxes[..., 1::2].clamp(min=0), limit(height, boxes))
    return torch.stack((x, y), dim=-1).flatten(-2)


def limit(side: int, like: Tensor) -> Tensor:
    """Return a side as a tensor of the type of another."""
    return torch.as_tensor(operand(side)).to(like.dtype)


def without_small(candidates: Candidates, smallest: float) -> Candidates:
    """Mark boxes whose width or height is at most `smallest` pixels as absent, if it is >= 0."""
    if smallest < 0:
        return candidates
    sides = candidates.boxes[..., 2:] - candidates.boxes[..., :2]
    is_large = (sides > smallest).all(-1)
    return candidates._replace(scores=torch.where(is_large, candidates.scores, ABSENT))


def suppress(candidates: Candidates, settings: Suppression) -> Candidates:
    """Return the boxes that remain after suppression in each class, the best first.

    The number of boxes of an image is fixed, and those beyond the remaining ones are absent. As in
    mmdet, the boxes of each class are moved to a place of their own, so that one suppression
    treats all classes.
    """
    boxes, scores, labels = candidates
    places = boxes
    if not settings.class_agnostic:
        is_present = (scores > LOWEST_SCORE)[..., None]
        largest = torch.where(is_present, boxes, 0).flatten(1).amax(1)
        places = boxes + (labels * (largest[:, None] + 1))[..., None]
    most = settings.max_boxes if settings.max_boxes > 0 else torch.iinfo(torch.int32).max
    kept = keep_boxes(places, scores, settings.iou_threshold, most)
    scores, index = top(torch.where(kept, scores, ABSENT), settings.max_boxes)
    return Candidates(take(boxes, index), scores, labels.gather(1, index))


def join(levels: Sequence[Candidates]) -> Candidates:
    """Concatenate the candidates of several levels."""
    return Candidates(*(torch.cat(parts, dim=1) for parts in zip(*levels)))


def results(candidates: Candidates) -> Candidates:
    """Return boxes, scores and labels without the rows that are absent in all images.

    At least one row remains. Absent rows of an image have box and score 0 and `PADDING_LABEL`.
    """
    is_present = candidates.scores > LOWEST_SCORE
    number = is_present.sum(1).amax(0).clamp(min=1).item()
    torch._check(number >= 1)
    torch._check(number <= candidates.scores.shape[1])
    is_present = is_present[:, :number]
    boxes = torch.where(is_present[..., None], candidates.boxes[:, :number], 0)
    scores = torch.where(is_present, candidates.scores[:, :number], 0)
    labels = torch.where(is_present, candidates.labels[:, :number], PADDING_LABEL)
    return Candidates(boxes, scores, labels)
