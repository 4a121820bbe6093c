"""Masks of queries in the image, and instances: Mask2Former's and those of `EncoderMaskHead`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.export.detection.boxes import (
    PADDING_LABEL,
    Candidates,
    best_candidates,
    results,
    take,
    top,
)
from mmflatten.export.detection.mask2former import PixelDecoder
from mmflatten.export.detection.suppression import ABSENT
from mmflatten.export.wrappers import ExportError
from mmflatten.models.layers import map_shape

NO_THRESHOLD = -0.25  # below all scores


class QueryMasks(nn.Module):
    """Class and mask logits of the queries of a head.

    Args:
        head: head of mmdet's or mmseg's Mask2Former, or an `EncoderMaskHead`.
        divisor: height and width of the padded image are multiples of it.

    Raises:
        ExportError: the pixel decoder cannot be exported.
    """

    def __init__(self, head: nn.Module, divisor: int) -> None:
        super().__init__()
        decoder = getattr(head, 'pixel_decoder', None)
        if decoder is not None:
            head.pixel_decoder = _exported_decoder(decoder)
        self.head = head
        self.divisor = divisor

    def forward(self, features: Any) -> tuple[Tensor, Tensor]:
        """Return logits `(B, Q, classes + 1)` and masks `(B, Q, h, w)`.

        Args:
            features: maps of the neck, or the tokens for a head in the blocks of a plain backbone.
        """
        logits, masks = self.head(features, None)
        return logits[-1], masks[-1]

    def in_image(self, masks_BNhw: Tensor, size: tuple[int, int]) -> Tensor:
        """Resize masks to the padded image, and crop them to the image of (H, W) pixels."""
        height, width = size
        padded = [(side + self.divisor - 1) // self.divisor * self.divisor for side in size]
        masks = F.interpolate(masks_BNhw, size=padded, mode='bilinear', align_corners=False)
        return masks[..., :height, :width]


class InstanceHead(nn.Module):
    """Instances of queries, as `MaskFormerFusionHead` of mmdet predicts them."""

    has_masks = True
    score_threshold = 0.0

    def __init__(self, queries: QueryMasks, max_boxes: int) -> None:
        super().__init__()
        self.queries = queries
        self.num_things = queries.head.num_things_classes
        self.max_boxes = max_boxes

    def forward(self, features: Any, size: tuple[int, int]) -> tuple[Tensor, ...]:
        """Return boxes in pixels of the image of size (H, W), scores, labels and masks."""
        logits, masks = self.queries(features)
        scores, index, labels = best_candidates(
            logits.softmax(-1)[..., :-1], NO_THRESHOLD, self.max_boxes
        )
        chosen = take(masks.flatten(2), index).unflatten(-1, map_shape(masks))
        masks = self.queries.in_image(chosen, size)
        is_inside = masks > 0

        # The score of an instance is that of its class times the mean probability of its pixels.
        area = is_inside.flatten(2).sum(-1)
        certainty = torch.where(is_inside, masks.sigmoid(), 0).flatten(2).sum(-1) / (area + 1e-6)
        scores = torch.where(labels < self.num_things, scores * certainty, ABSENT)
        scores, order = top(scores, self.max_boxes)
        boxes = take(boxes_of(is_inside), order)
        found = results(Candidates(boxes, scores, labels.gather(1, order)))
        order = order[:, : found.scores.shape[1]]
        is_inside = take(is_inside.flatten(2), order).unflatten(-1, size)
        return *found, is_inside & (found.labels != PADDING_LABEL)[..., None, None]


def boxes_of(masks_BNHW: Tensor) -> Tensor:
    """Return the boxes around masks, `(B, N, 4)`; an empty mask has a box of zeros."""
    low_x, high_x = _range(masks_BNHW.any(2))
    low_y, high_y = _range(masks_BNHW.any(3))
    return torch.stack((low_x, low_y, high_x, high_y), dim=-1)


def _range(is_inside_BNL: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first place, and the last place plus one."""
    length = is_inside_BNL.shape[-1]
    place = torch.arange(length, dtype=torch.float32)
    high = torch.where(is_inside_BNL, place + 1, 0).amax(-1)
    low = torch.where(is_inside_BNL, place, torch.inf).amin(-1)
    return torch.where(high > 0, low, 0), high


def _exported_decoder(decoder: nn.Module) -> nn.Module:
    from mmdet.models.layers import MSDeformAttnPixelDecoder

    if type(decoder) is not MSDeformAttnPixelDecoder:
        raise ExportError(
            'pixel_decoder.type: expected MSDeformAttnPixelDecoder, got'
            f' {type(decoder).__name__}. --features exports backbone and neck.'
        )
    return PixelDecoder(decoder)
