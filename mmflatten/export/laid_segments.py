"""Segments of Panoptic FPN: instances laid one after another, and stuff around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.export.detection.two_stage import TwoStageHead
from mmflatten.structures.segments import INSTANCE_OFFSET

NO_INSTANCE = -1


class LaidSegments(nn.Module):
    """Instances of Mask R-CNN over the stuff of a semantic head, as `HeuristicFusionHead` of mmdet
    joins them.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.things = TwoStageHead(model)
        self.stuff = model.semantic_head
        fusion = model.panoptic_fusion_head
        self.num_things = fusion.num_things_classes
        self.num_classes = fusion.num_classes
        self.most_covered = float(fusion.test_cfg.mask_overlap)
        self.least_area = fusion.test_cfg.stuff_area_limit

    def forward(
        self, features: Sequence[Tensor], size: tuple[int, int], padded: Sequence[int]
    ) -> Tensor:
        """Return segments `(B, H, W)`.

        Args:
            size, padded: (H, W) of the images without and with their padding.
        """
        _, _, labels, masks = self.things(features, size)
        logits = self.stuff(features)['seg_preds']
        logits = F.interpolate(logits, size=padded, mode='bilinear', align_corners=False)
        # The export cannot prove that a slice of the padded map has the size of the image.
        rows, columns = (torch.arange(side) for side in size)
        stuff = logits.argmax(1).index_select(1, rows).index_select(2, columns)
        return self.join(lay_masks(masks, labels, self.most_covered), stuff)

    def join(self, instances_BHW: Tensor, stuff_BHW: Tensor) -> Tensor:
        """Fill the pixels without an instance with the labels of stuff, counted from 0.

        Stuff of few pixels becomes `num_classes`, as the stuff that stands for things is.
        """
        labels_BHW = stuff_BHW + self.num_things
        segments = torch.where(instances_BHW == NO_INSTANCE, labels_BHW, instances_BHW)
        for label in range(self.num_things, self.num_classes):
            is_label = segments == label
            is_small = is_label.flatten(1).sum(1)[:, None, None] < self.least_area
            segments = torch.where(is_label & is_small, self.num_classes, segments)
        return segments


@torch.library.custom_op('mmflatten::lay_masks', mutates_args=())
def lay_masks(masks_BNHW: Tensor, labels_BN: Tensor, most_covered: float) -> Tensor:
    """Return the segments `(B, H, W)` of instances, the first on top; `NO_INSTANCE` elsewhere.

    A segment is the label plus 1000 times the number of the instance, counted from 1. An instance
    is dropped if those before it cover more of its mask than `most_covered`. Negative labels are
    padding.
    """
    segments_BHW = torch.full_like(masks_BNHW[:, 0], NO_INSTANCE, dtype=torch.long)
    number_B11 = torch.zeros_like(labels_BN[:, :1, None])
    for mask_BHW, label_B in zip(masks_BNHW.unbind(1), labels_BN.unbind(1)):
        label_B11 = label_B[:, None, None]
        area_B11 = mask_BHW.sum((1, 2), keepdim=True)
        free_BHW = mask_BHW & (segments_BHW == NO_INSTANCE)
        visible_B11 = free_BHW.sum((1, 2), keepdim=True)
        covered_B11 = (area_B11 - visible_B11) / (area_B11 + 1e-5)
        is_used = (label_B11 >= 0) & (visible_B11 > 0) & (covered_B11 <= most_covered)
        number_B11 = number_B11 + is_used
        segment_B11 = label_B11 + INSTANCE_OFFSET * number_B11
        segments_BHW = torch.where(free_BHW & is_used, segment_B11, segments_BHW)
    return segments_BHW


@lay_masks.register_fake
def _(masks_BNHW: Tensor, labels_BN: Tensor, most_covered: float) -> Tensor:
    return torch.empty_like(masks_BNHW[:, 0], dtype=torch.long)


def translations() -> dict[Callable, Callable]:
    """Return the ONNX translation of `lay_masks`, for `torch.onnx.export`."""
    from onnxscript import opset18 as op
    from onnxscript import script

    @script(default_opset=op)
    def lay_masks_onnx(masks_BNHW: Any, labels_BN: Any, most_covered: float) -> Any:
        sides = op.Constant(value_ints=[1, 2])
        none = op.Constant(value_int=-1)
        zero = op.Constant(value_int=0)
        limit = op.Constant(value_float=most_covered)
        first_BHW = op.Cast(op.Gather(masks_BNHW, zero, axis=1), to=7)
        segments_BHW = op.Sub(op.Mul(first_BHW, zero), 1)
        number_B11 = op.Mul(op.ReduceSum(first_BHW, sides, keepdims=1), zero)
        count = op.Squeeze(op.Shape(labels_BN, start=1, end=2))
        for index in range(count):
            mask_BHW = op.Gather(masks_BNHW, index, axis=1)
            label_B11 = op.Unsqueeze(op.Gather(labels_BN, index, axis=1), sides)
            area_B11 = op.ReduceSum(op.Cast(mask_BHW, to=1), sides, keepdims=1)
            free_BHW = op.And(mask_BHW, op.Equal(segments_BHW, none))
            visible_B11 = op.ReduceSum(op.Cast(free_BHW, to=1), sides, keepdims=1)
            covered_B11 = op.Div(op.Sub(area_B11, visible_B11), op.Add(area_B11, 1e-5))
            is_visible = op.And(op.Greater(visible_B11, 0.0), op.LessOrEqual(covered_B11, limit))
            is_used = op.And(op.GreaterOrEqual(label_B11, zero), is_visible)
            number_B11 = op.Add(number_B11, op.Cast(is_used, to=7))
            segment_B11 = op.Add(label_B11, op.Mul(number_B11, 1000))
            segments_BHW = op.Where(op.And(free_BHW, is_used), segment_B11, segments_BHW)
        return segments_BHW

    return {torch.ops.mmflatten.lay_masks.default: lay_masks_onnx}
