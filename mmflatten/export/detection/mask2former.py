"""Mask2Former's instances: deformable pixel decoder, masked attention, boxes around the masks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.export.detection import deformable
from mmflatten.export.detection.boxes import (
    PADDING_LABEL,
    Candidates,
    best_candidates,
    results,
    take,
    top,
)
from mmflatten.export.detection.suppression import ABSENT
from mmflatten.export.wrappers import ExportError
from mmflatten.models.layers import map_shape

NO_THRESHOLD = -0.25  # below all scores


class PixelDecoder(nn.Module):
    """mmdet's `MSDeformAttnPixelDecoder` with open sizes."""

    def __init__(self, decoder: nn.Module) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, features: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Return the features of the masks, and maps from coarse to fine."""
        decoder = self.decoder
        # The encoder runs on the coarsest maps, the coarsest first.
        encoded = list(features[::-1])[: decoder.num_encoder_levels]
        sizes = [map_shape(x) for x in encoded]
        projected = [conv(x) for conv, x in zip(decoder.input_convs, encoded)]
        positions = []
        for x, level in zip(projected, decoder.level_encoding.weight):
            position = decoder.postional_encoding(None, input=x)
            positions.append(position + level[:, None, None])
        tokens = deformable.encode(
            decoder.encoder.layers,
            deformable.flatten(projected),
            deformable.flatten(positions),
            sizes=sizes,
        )
        maps = []
        split = tokens.transpose(1, 2).split([height * width for height, width in sizes], dim=-1)
        for x, size in zip(split, sizes):
            maps.append(x.unflatten(-1, size))

        # A feature pyramid on the finer maps.
        finer = features[: decoder.num_input_levels - decoder.num_encoder_levels]
        layers = zip(decoder.lateral_convs, decoder.output_convs)
        for x, (lateral, output) in zip(finer[::-1], layers, strict=True):
            x = lateral(x)
            coarser = F.interpolate(
                maps[-1], size=map_shape(x), mode='bilinear', align_corners=False
            )
            maps.append(output(x + coarser))
        return decoder.mask_feature(maps[-1]), maps[: decoder.num_outs]


class Mask2FormerHead(nn.Module):
    """Instances of mmdet's `Mask2FormerHead`, as `MaskFormerFusionHead` predicts them."""

    has_masks = True
    score_threshold = 0.0

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        test_cfg = model.panoptic_fusion_head.test_cfg
        if not test_cfg.get('instance_on', False):
            raise ExportError(
                'model.test_cfg.instance_on: expected True, got False. Panoptic maps cannot be'
                ' exported: set it to True for instances.'
            )
        head = model.panoptic_head
        head.pixel_decoder = PixelDecoder(head.pixel_decoder)
        self.head = head
        self.divisor = max(getattr(model.data_preprocessor, 'pad_size_divisor', 1) or 1, 1)
        self.num_things = head.num_things_classes
        self.max_boxes = test_cfg.get('max_per_image', 100)

    def forward(self, features: Sequence[Tensor], size: tuple[int, int]) -> tuple[Tensor, ...]:
        """Return boxes in pixels of the image of size (H, W), scores, labels and masks."""
        logits, masks = self.head(features, None)
        scores, index, labels = best_candidates(
            logits[-1].softmax(-1)[..., :-1], NO_THRESHOLD, self.max_boxes
        )
        masks = self._in_image(take(masks[-1].flatten(2), index), map_shape(masks[-1]), size)
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

    def _in_image(
        self, masks_BNP: Tensor, map_size: tuple[int, int], size: tuple[int, int]
    ) -> Tensor:
        """Resize masks to the padded image, and crop the padding."""
        masks = masks_BNP.unflatten(-1, map_size)
        height, width = size
        padded = [(side + self.divisor - 1) // self.divisor * self.divisor for side in size]
        masks = F.interpolate(masks, size=padded, mode='bilinear', align_corners=False)
        return masks[..., :height, :width]


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
