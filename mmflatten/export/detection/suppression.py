"""Selection of boxes with ONNX's operators `NonMaxSuppression` and `TopK`.

The suppression of this module returns a mask instead of indices, so that the shapes of a graph do
not depend on the number of boxes that remain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torchvision
from torch import Tensor

ABSENT = -1.0  # score of a candidate that does not count; other scores are at least 0
LOWEST_SCORE = -0.5  # between `ABSENT` and the other scores


@torch.library.custom_op('mmflatten::keep_boxes', mutates_args=())
def keep_boxes(
    boxes_BN4: Tensor, scores_BN: Tensor, iou_threshold: float, max_boxes: int
) -> Tensor:
    """Return the mask `(B, N)` of the boxes that suppression keeps, at most `max_boxes` per image.

    A box is dropped if its IoU with a better box of the same image is above the threshold, or if
    its score is `ABSENT`.
    """
    kept_BN = torch.zeros_like(scores_BN, dtype=torch.bool)
    for kept, boxes, scores in zip(kept_BN, boxes_BN4, scores_BN):
        present = (scores > LOWEST_SCORE).nonzero().flatten()
        best = torchvision.ops.nms(boxes[present], scores[present], iou_threshold)
        kept[present[best[:max_boxes]]] = True
    return kept_BN


@keep_boxes.register_fake
def _(boxes_BN4: Tensor, scores_BN: Tensor, iou_threshold: float, max_boxes: int) -> Tensor:
    return torch.empty_like(scores_BN, dtype=torch.bool)


@torch.library.custom_op('mmflatten::best_scores', mutates_args=())
def best_scores(scores_BN: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Return the `number` highest scores of each image and their indices, `(B, number)`.

    Of equal scores the first is taken, as by ONNX's `TopK` and not by `torch.topk`.
    """
    scores, index = scores_BN.sort(dim=1, descending=True, stable=True)
    return scores[:, :number].clone(), index[:, :number].clone()


@best_scores.register_fake
def _(scores_BN: Tensor, number: int) -> tuple[Tensor, Tensor]:
    shape = (scores_BN.shape[0], number)
    return scores_BN.new_empty(shape), scores_BN.new_empty(shape, dtype=torch.long)


def translations() -> dict[Callable, Callable]:
    """Return the ONNX translations of this module's operators, for `torch.onnx.export`."""
    from onnxscript import opset18 as op

    def keep_boxes_onnx(
        boxes_BN4: Any, scores_BN: Any, iou_threshold: float, max_boxes: int
    ) -> Any:
        class_axis = op.Constant(value_ints=[1])
        selected_M3 = op.NonMaxSuppression(
            # OpenVINO may not infer the width of 4 and requires it.
            op.Reshape(boxes_BN4, op.Constant(value_ints=[0, -1, 4])),
            op.Unsqueeze(scores_BN, class_axis),
            op.Constant(value_ints=[max_boxes]),
            op.Constant(value_floats=[iou_threshold]),
            op.Constant(value_floats=[LOWEST_SCORE]),
        )
        # Rows of image, class and box.
        places_M2 = op.Gather(selected_M3, op.Constant(value_ints=[0, 2]), axis=1)
        number = op.Shape(places_M2, end=1)
        ones_M = op.Expand(op.Constant(value_floats=[1.0]), number)
        zeros_BN = op.Sub(scores_BN, scores_BN)
        marks_BN = op.ScatterND(zeros_BN, places_M2, ones_M)
        return op.Greater(marks_BN, op.Constant(value_float=0.5))

    def best_scores_onnx(scores_BN: Any, number: Any) -> Any:
        return op.TopK(scores_BN, op.Reshape(number, op.Constant(value_ints=[1])), axis=1)

    return {
        torch.ops.mmflatten.keep_boxes.default: keep_boxes_onnx,
        torch.ops.mmflatten.best_scores.default: best_scores_onnx,
    }
