"""Heads of two stages: region proposals, and Mask R-CNN's or Cascade R-CNN's boxes and masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mmflatten.export.detection.boxes import (
    Candidates,
    Suppression,
    decode_deltas,
    join,
    results,
    suppress,
    take,
    top,
    without_small,
)
from mmflatten.export.detection.dense import anchors, class_scores, rows
from mmflatten.export.detection.regions import RegionFeatures, paste
from mmflatten.export.detection.suppression import ABSENT, LOWEST_SCORE
from mmflatten.export.wrappers import ExportError


class Proposals(nn.Module):
    """Region proposal network, as `RPNHead.predict_by_feat` of mmdet."""

    def __init__(self, head: nn.Module, test_cfg: Any) -> None:
        super().__init__()
        self.head = head
        self.settings = test_cfg
        self.suppression = Suppression.of(test_cfg, 'model.test_cfg.rpn')

    def forward(self, features: Sequence[Tensor], size: tuple[int, int]) -> Candidates:
        """Return the boxes and scores of the proposals; their labels are levels."""
        levels = []
        for level, (logits, deltas) in enumerate(zip(*self.head(features))):
            scores = class_scores(self.head, rows(logits, self.head.cls_out_channels))[..., 0]
            scores, index = top(scores, self.settings.get('nms_pre', -1))
            boxes = decode_deltas(
                anchors(self.head.prior_generator, level, logits)[index],
                take(rows(deltas, 4), index),
                coder=self.head.bbox_coder,
                size=size,
            )
            levels.append(Candidates(boxes, scores, torch.full_like(index, level)))
        candidates = without_small(join(levels), self.settings.get('min_bbox_size', -1))
        return suppress(candidates, self.suppression)


class BoxStage(nn.Module):
    """One stage of a box head: class logits and deltas of regions."""

    def __init__(self, extractor: nn.Module, head: nn.Module) -> None:
        super().__init__()
        _require_plain_box_head(head)
        self.regions = RegionFeatures(extractor)
        self.head = head
        self.num_boxes = 1 if head.reg_class_agnostic else head.num_classes

    def forward(self, features: Sequence[Tensor], boxes_BN4: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits `(B, N, classes + 1)` and deltas `(B, N, classes or 1, 4)`."""
        logits, deltas = self.head(self.regions(features, boxes_BN4))
        number = boxes_BN4.shape[1]
        logits = logits.reshape(-1, number, self.head.num_classes + 1)
        return logits, deltas.reshape(-1, number, self.num_boxes, 4)

    def decode(self, boxes_BN4: Tensor, deltas_BNC4: Tensor, size: tuple[int, int]) -> Tensor:
        return decode_deltas(boxes_BN4[:, :, None], deltas_BNC4, self.head.bbox_coder, size=size)

    def refine(
        self, boxes_BN4: Tensor, logits: Tensor, deltas_BNC4: Tensor, size: tuple[int, int]
    ) -> Tensor:
        """Return the boxes `(B, N, 4)` of the most probable classes."""
        refined_BNC4 = self.decode(boxes_BN4, deltas_BNC4, size)
        if self.num_boxes == 1:
            return refined_BNC4[:, :, 0]
        label = logits[..., :-1].argmax(-1)[..., None, None]
        return refined_BNC4.gather(2, label.expand(-1, -1, 1, 4))[:, :, 0]


class MaskStage(nn.Module):
    """A mask head: probabilities of the labels' masks."""

    def __init__(self, extractor: nn.Module, head: nn.Module) -> None:
        super().__init__()
        _require_plain_mask_head(head)
        self.regions = RegionFeatures(extractor)
        self.head = head

    def forward(self, features: Sequence[Tensor], boxes_BN4: Tensor, labels_BN: Tensor) -> Tensor:
        """Return `(B, N, h, w)`."""
        logits = self.head(self.regions(features, boxes_BN4))
        side = logits.shape[-2:]
        logits = logits.reshape(-1, boxes_BN4.shape[1], logits.shape[1], *side)
        if self.head.class_agnostic:
            return logits[:, :, 0].sigmoid()
        # Padding has no label, and a mask that is not used.
        label = labels_BN.clamp(min=0)[..., None, None, None].expand(-1, -1, 1, *side)
        return logits.gather(2, label)[:, :, 0].sigmoid()


class TwoStageHead(nn.Module):
    """Proposals, one or several box stages, suppression and masks.

    It computes what `StandardRoIHead` and `CascadeRoIHead` of mmdet compute.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        head = model.roi_head
        if head.with_shared_head:
            raise ExportError(
                'roi_head.shared_head: expected none, got'
                f' {type(head.shared_head).__name__}. --features exports backbone and neck.'
            )
        self.settings = model.test_cfg.rcnn
        self.suppression = Suppression.of(self.settings, 'model.test_cfg.rcnn')
        self.score_threshold = self.settings.score_thr
        self.max_boxes = self.suppression.max_boxes
        self.proposals = Proposals(model.rpn_head, model.test_cfg.rpn)
        self.stages = nn.ModuleList()
        for extractor, box_head in zip(_listed(head.bbox_roi_extractor), _listed(head.bbox_head)):
            self.stages.append(BoxStage(extractor, box_head))
        self.mask_stages = nn.ModuleList()
        if head.with_mask:
            for extractor, mask_head in zip(
                _listed(head.mask_roi_extractor), _listed(head.mask_head)
            ):
                self.mask_stages.append(MaskStage(extractor, mask_head))
        self.has_masks = head.with_mask

    def forward(self, features: Sequence[Tensor], size: tuple[int, int]) -> tuple[Tensor, ...]:
        """Return boxes in pixels of the image of size (H, W), scores, labels, and masks."""
        proposals = self.proposals(features, size)
        boxes, logits = self._boxes(features, proposals.boxes, size)
        found = results(suppress(self._candidates(proposals, boxes, logits), self.suppression))
        if not self.has_masks:
            return found
        return *found, self._masks(features, found, size)

    def _boxes(
        self, features: Sequence[Tensor], boxes_BN4: Tensor, size: tuple[int, int]
    ) -> tuple[Tensor, Tensor]:
        """Return the boxes of the last stage `(B, N, classes or 1, 4)`, and the mean logits."""
        all_logits = []
        for stage in self.stages[:-1]:
            logits, deltas = stage(features, boxes_BN4)
            boxes_BN4 = stage.refine(boxes_BN4, logits, deltas, size=size)
            all_logits.append(logits)
        logits, deltas = self.stages[-1](features, boxes_BN4)
        all_logits.append(logits)
        return self.stages[-1].decode(boxes_BN4, deltas, size), sum(all_logits) / len(all_logits)

    def _candidates(self, proposals: Candidates, boxes_BNC4: Tensor, logits: Tensor) -> Candidates:
        """Return each proposal as a candidate of each class."""
        scores_BNC = logits.softmax(-1)[..., :-1]
        is_present = scores_BNC > self.score_threshold
        is_present = is_present & (proposals.scores > LOWEST_SCORE)[..., None]
        scores_BNC = torch.where(is_present, scores_BNC, ABSENT)
        boxes_BNC4 = boxes_BNC4.expand(-1, -1, scores_BNC.shape[-1], -1)
        labels = torch.arange(scores_BNC.shape[-1]).expand_as(scores_BNC)
        return Candidates(boxes_BNC4.flatten(1, 2), scores_BNC.flatten(1), labels.flatten(1))

    def _masks(
        self, features: Sequence[Tensor], found: Candidates, size: tuple[int, int]
    ) -> Tensor:
        """Return the mean masks of all stages in the image, `(B, N, H, W)`."""
        masks = [stage(features, found.boxes, found.labels) for stage in self.mask_stages]
        return paste(sum(masks) / len(masks), found.boxes, size) >= self.settings.mask_thr_binary


def _listed(value: Any) -> list[nn.Module]:
    return list(value) if isinstance(value, nn.ModuleList) else [value]


def _require_plain_box_head(head: nn.Module) -> None:
    """Raise ExportError if a box head predicts by another rule than mmdet's `BBoxHead`."""
    from mmdet.models.roi_heads.bbox_heads import BBoxHead
    from mmdet.models.task_modules.coders import DeltaXYWHBBoxCoder

    is_plain = isinstance(head, BBoxHead) and (
        type(head)._predict_by_feat_single is BBoxHead._predict_by_feat_single
    )
    is_plain = is_plain and type(head.bbox_coder) is DeltaXYWHBBoxCoder
    if not is_plain or not head.with_reg or head.custom_cls_channels:
        raise ExportError(
            'roi_head.bbox_head: expected boxes by DeltaXYWHBBoxCoder and classes by softmax,'
            f' got {type(head).__name__}. --features exports backbone and neck.'
        )


def _require_plain_mask_head(head: nn.Module) -> None:
    """Raise ExportError if a mask head predicts by another rule than mmdet's `FCNMaskHead`."""
    from mmdet.models.roi_heads.mask_heads import FCNMaskHead

    is_plain = isinstance(head, FCNMaskHead) and (
        type(head)._predict_by_feat_single is FCNMaskHead._predict_by_feat_single
    )
    if not is_plain:
        raise ExportError(
            f'roi_head.mask_head: expected FCNMaskHead, got {type(head).__name__}. --features'
            ' exports backbone and neck.'
        )
