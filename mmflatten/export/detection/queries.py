"""Heads with queries instead of suppression: Sparse R-CNN and DINO."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mmflatten.export.detection import deformable
from mmflatten.export.detection.boxes import (
    Candidates,
    best_candidates,
    clip,
    decode_deltas,
    limit,
    results,
    take,
    top,
)
from mmflatten.export.detection.regions import RegionFeatures
from mmflatten.export.wrappers import ExportError
from mmflatten.models.layers import map_shape

NO_THRESHOLD = -0.25  # below all scores


class SparseHead(nn.Module):
    """Learned proposals that several stages refine, as mmdet's `SparseRoIHead`."""

    score_threshold = 0.0

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        head = model.roi_head
        if head.with_mask:
            raise ExportError(
                'roi_head.mask_head: expected none for Sparse R-CNN, got'
                f' {type(head.mask_head[-1]).__name__}. --features exports backbone and neck.'
            )
        self.boxes = model.rpn_head.init_proposal_bboxes
        self.queries = model.rpn_head.init_proposal_features
        self.regions = nn.ModuleList(map(RegionFeatures, head.bbox_roi_extractor))
        self.stages = head.bbox_head
        self.max_boxes = model.test_cfg.rcnn.max_per_img

    def forward(self, features: Sequence[Tensor], size: tuple[int, int]) -> Candidates:
        """Return boxes in pixels of the image of size (H, W), scores and labels."""
        batch = features[0].shape[0]
        boxes = to_pixels(self.boxes.weight, size).expand(batch, -1, -1)
        queries = self.queries.weight.expand(batch, -1, -1)
        for regions, stage in zip(self.regions, self.stages):
            logits, deltas, queries, _ = stage(regions(features, boxes), queries)
            boxes = decode_deltas(boxes, deltas, coder=stage.bbox_coder, size=size)
        if self.stages[-1].loss_cls.use_sigmoid:
            scores = logits.sigmoid()
        else:
            scores = logits.softmax(-1)[..., :-1]
        scores, index, labels = best_candidates(scores, NO_THRESHOLD, self.max_boxes)
        return results(Candidates(take(boxes, index), scores, labels))


class DINOHead(nn.Module):
    """Deformable encoder, queries from its best tokens, and decoder, as mmdet's `DINO` predicts.

    Source: DINO (arXiv:2203.03605).
    """

    score_threshold = 0.0

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.max_boxes = model.test_cfg.get('max_per_img', model.num_queries)
        strides = getattr(model.backbone, 'out_strides', (8, 16, 32))
        levels = model.encoder.layers[0].self_attn.num_levels
        self.stride = max(strides) * 2 ** max(0, levels - len(strides))  # the neck adds levels
        divisor = getattr(model.data_preprocessor, 'pad_size_divisor', 1)
        if divisor != 1:
            raise ExportError(
                'data_preprocessor.pad_size_divisor: expected 1 for DINO, whose attention masks'
                f' padding, got {divisor}. Set it to 1.'
            )
        if not model.bbox_head.loss_cls.use_sigmoid:
            raise ExportError(
                'bbox_head.loss_cls.use_sigmoid: expected True for DINO, got False. --features'
                ' exports backbone and neck.'
            )

    def forward(self, features: Sequence[Tensor], size: tuple[int, int]) -> Candidates:
        """Return boxes in pixels of the image of size (H, W), scores and labels."""
        sizes = [map_shape(x) for x in features]
        memory = self._encode(features, sizes)
        logits, boxes = self._decode(memory, self._proposals(memory, sizes), sizes)
        scores, index, labels = best_candidates(logits.sigmoid(), NO_THRESHOLD, self.max_boxes)
        boxes = clip(to_pixels(take(boxes, index), size), size)
        return results(Candidates(boxes, scores, labels))

    def _encode(self, features: Sequence[Tensor], sizes: deformable.Sizes) -> Tensor:
        positions = []
        for feature, level in zip(features, self.model.level_embed):
            position = self.model.positional_encoding(None, input=feature)
            positions.append(position + level[:, None, None])
        return deformable.encode(
            self.model.encoder.layers,
            deformable.flatten(features),
            deformable.flatten(positions),
            sizes=sizes,
        )

    def _proposals(self, memory_BNC: Tensor, sizes: deformable.Sizes) -> Tensor:
        """Return the boxes `(B, queries, 4)` of the tokens with the highest scores, relative."""
        model = self.model
        last = model.decoder.num_layers
        # Boxes around the cells, larger on coarser maps.
        sides = []
        for level, (height, width) in enumerate(sizes):
            sides.append(memory_BNC.new_full((1, height * width, 2), 0.05 * 2.0**level))
        cells = torch.cat((deformable.centers(sizes, memory_BNC), torch.cat(sides, dim=1)), dim=-1)
        is_inside = ((cells > 0.01) & (cells < 0.99)).all(-1, keepdim=True)
        priors = torch.where(is_inside, (cells / (1 - cells)).log(), torch.inf)

        memory = model.memory_trans_norm(model.memory_trans_fc(memory_BNC * is_inside))
        scores = model.bbox_head.cls_branches[last](memory).amax(-1)
        _, index = top(scores, model.num_queries)
        return take(model.bbox_head.reg_branches[last](memory) + priors, index).sigmoid()

    def _decode(
        self, memory: Tensor, reference: Tensor, sizes: deformable.Sizes
    ) -> tuple[Tensor, Tensor]:
        """Return logits and relative boxes of the last decoder layer."""
        from mmdet.models.layers.transformer.utils import coordinate_to_encoding, inverse_sigmoid

        decoder = self.model.decoder
        head = self.model.bbox_head
        last = len(decoder.layers) - 1
        batch, num_queries = reference.shape[:2]
        query = self.model.query_embedding.weight[:num_queries].expand(batch, -1, -1)
        for number, layer in enumerate(decoder.layers):
            encoding = coordinate_to_encoding(reference, num_feats=query.shape[2])
            position = decoder.ref_point_head(encoding)
            query = layer.self_attn(query=query, query_pos=position, key_pos=position)
            query = deformable.attend(
                layer.cross_attn,
                layer.norms[0](query),
                position,
                value_BMC=memory,
                reference=reference,
                sizes=sizes,
            )
            query = layer.norms[2](layer.ffn(layer.norms[1](query)))
            if number < last:
                shift = head.reg_branches[number](query)
                reference = (shift + inverse_sigmoid(reference, eps=1e-3)).sigmoid()
        query = decoder.norm(query)
        boxes = head.reg_branches[last](query) + inverse_sigmoid(reference)
        return head.cls_branches[last](query), boxes.sigmoid()


def to_pixels(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Convert relative boxes (centre, width, height) to corners in pixels of an image of (H, W)."""
    height, width = size
    corners = (boxes[..., :2] - boxes[..., 2:] / 2, boxes[..., :2] + boxes[..., 2:] / 2)
    scale = torch.stack((limit(width, boxes), limit(height, boxes)))
    return torch.cat([corner * scale for corner in corners], dim=-1)
