"""Export of panoptic models: Panoptic FPN, and those with queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from mmflatten.export import laid_segments
from mmflatten.export.detection import suppression
from mmflatten.export.detection.heads import query_masks
from mmflatten.export.wrappers import ExportedModel, ExportError
from mmflatten.structures.segments import INSTANCE_OFFSET

if TYPE_CHECKING:
    from mmflatten.export.detection.query_masks import QueryMasks

ABSENT = -1.0  # probability of a query that is not used; others are at least 0


class Exported(ExportedModel):
    """Segments `(B, H, W)`, int64: label + number of the instance * 1000.

    Pixels without a segment have the number of classes as their label, as in mmdet.
    """

    task, outputs = 'panoptic', ('segments',)
    # A pixel between two segments may depend on rounding, in PyTorch too.
    outliers = 0.01

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.head = _head_of(model)

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        x = self.prepare(image)
        return (self.head(self.model.extract_feat(x), image.shape[-2:], padded=x.shape[-2:]),)

    def translations(self) -> dict[Callable, Callable]:
        return suppression.translations() | laid_segments.translations()

    def errors(
        self, outputs: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Return 1 for each pixel of another segment, and 0 for the others."""
        differs = outputs['segments'] != expected['segments']
        return differs.ravel().astype(np.float32)


def _head_of(model: nn.Module) -> nn.Module:
    """Return the module that computes segments from the maps of the neck.

    Raises:
        ExportError: the fusion cannot be exported.
    """
    from mmdet.models.detectors import TwoStagePanopticSegmentor
    from mmdet.models.seg_heads import HeuristicFusionHead

    queries = query_masks(model)
    if queries is not None:
        return QuerySegments(model, queries)
    fusion = type(getattr(model, 'panoptic_fusion_head', model))
    if isinstance(model, TwoStagePanopticSegmentor) and fusion is HeuristicFusionHead:
        return laid_segments.LaidSegments(model)
    raise ExportError(
        'model.panoptic_fusion_head: expected the HeuristicFusionHead of Panoptic FPN, or the'
        f' segments of Mask2Former or EncoderMaskDetector, got {fusion.__name__}. Use the'
        ' checkpoint, or --features for backbone and neck.'
    )


class QuerySegments(nn.Module):
    """Segments of the queries of Mask2Former or EncoderMask."""

    def __init__(self, model: nn.Module, queries: QueryMasks) -> None:
        super().__init__()
        self.queries = queries
        settings = model.panoptic_fusion_head.test_cfg
        self.score_threshold = settings.get('object_mask_thr', 0.8)
        self.least_visible = settings.get('iou_thr', 0.8)
        self.filters_pixels = settings.get('filter_low_score', False)
        self.num_classes = queries.head.num_classes
        self.num_things = queries.head.num_things_classes

    def forward(
        self, features: Sequence[Tensor], size: tuple[int, int], padded: Sequence[int]
    ) -> Tensor:
        """Return segments `(B, H, W)`.

        Args:
            size, padded: (H, W) of the images without and with their padding.
        """
        logits, masks = self.queries(features)
        return self.join(logits, self.queries.in_image(masks, size).sigmoid())

    def join(self, logits: Tensor, masks_BQHW: Tensor) -> Tensor:
        """Give each pixel to the best query, as `MaskFormerFusionHead.panoptic_postprocess`.

        A query whose mask is mostly that of better ones is dropped with its pixels.
        """
        scores, labels = logits.softmax(-1).max(-1)
        is_used = (labels != self.num_classes) & (scores > self.score_threshold)
        weighted = scores[..., None, None] * masks_BQHW
        best_BHW = torch.where(is_used[..., None, None], weighted, ABSENT).argmax(1)

        is_inside = masks_BQHW >= 0.5
        numbers = torch.arange(masks_BQHW.shape[1])[:, None, None]
        visible = (best_BHW[:, None] == numbers).flatten(2).sum(-1).float()
        area = is_inside.flatten(2).sum(-1).float()
        is_used = is_used & (visible > 0) & (area > 0)
        is_used = is_used & (visible / area.clamp(min=1) >= self.least_visible)

        is_instance = is_used & (labels < self.num_things)
        instance = is_instance.long().cumsum(1) * INSTANCE_OFFSET
        values = labels + torch.where(is_instance, instance, 0)
        values = torch.where(is_used, values, self.num_classes)
        segments = values.gather(1, best_BHW.flatten(1)).view_as(best_BHW)
        if not self.filters_pixels:
            return segments
        certain = is_inside.gather(1, best_BHW[:, None])[:, 0]
        return torch.where(certain, segments, self.num_classes)
