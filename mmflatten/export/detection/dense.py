"""Heads that predict boxes at every position of the maps: RetinaNet, ATSS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mmflatten.export.detection.boxes import (
    Candidates,
    Suppression,
    best_candidates,
    decode_deltas,
    join,
    results,
    suppress,
    take,
    without_small,
)
from mmflatten.models.layers import map_shape


class AnchorHead(nn.Module):
    """Head with anchors: classes, deltas and, for ATSS, centerness of each anchor.

    It computes what `BaseDenseHead.predict_by_feat` of mmdet computes.
    """

    def __init__(self, head: nn.Module, test_cfg: Any) -> None:
        super().__init__()
        self.head = head
        self.settings = test_cfg
        self.suppression = Suppression.of(test_cfg, 'model.test_cfg')
        self.score_threshold = test_cfg.get('score_thr', 0)
        self.max_boxes = self.suppression.max_boxes

    def forward(self, features: Sequence[Tensor], size: tuple[int, int]) -> Candidates:
        """Return boxes in pixels of the image of size (H, W), scores and labels."""
        outputs = self.head(features)
        levels = [self._level(size, level, *maps) for level, maps in enumerate(zip(*outputs))]
        candidates = without_small(join(levels), self.settings.get('min_bbox_size', -1))
        return results(suppress(candidates, self.suppression))

    def _level(
        self,
        size: tuple[int, int],
        level: int,
        logits: Tensor,
        deltas: Tensor,
        centerness: Tensor | None = None,
    ) -> Candidates:
        head = self.head
        scores, index, labels = best_candidates(
            class_scores(head, rows(logits, head.cls_out_channels)),
            threshold=self.score_threshold,
            number=self.settings.get('nms_pre', -1),
        )
        priors = anchors(head.prior_generator, level, logits)
        boxes = decode_deltas(
            priors[index], take(rows(deltas, 4), index), coder=head.bbox_coder, size=size
        )
        if centerness is not None:
            factor = rows(centerness, 1)[..., 0].sigmoid().gather(1, index)
            # An absent candidate keeps its negative score.
            scores = torch.where(scores > 0, scores * factor, scores)
        return Candidates(boxes, scores, labels)


def rows(maps: Tensor, width: int) -> Tensor:
    """Return `(B, A * width, H, W)` as `(B, H * W * A, width)`."""
    channels, height, columns = maps.shape[1:]
    number = height * columns * (channels // width)
    return maps.permute(0, 2, 3, 1).reshape(-1, number, width)


def class_scores(head: nn.Module, logits: Tensor) -> Tensor:
    """Return the probabilities of the classes, without the one of the background."""
    if head.use_sigmoid_cls:
        return logits.sigmoid()
    return logits.softmax(-1)[..., :-1]


def anchors(generator: Any, level: int, maps: Tensor) -> Tensor:
    """Return the anchors of a level, `(H * W * A, 4)` in pixels, ordered as `rows`."""
    height, width = map_shape(maps)
    stride_x, stride_y = generator.strides[level]
    x = torch.arange(width, dtype=maps.dtype) * stride_x
    y = torch.arange(height, dtype=maps.dtype) * stride_y
    x, y = torch.broadcast_tensors(x, y[:, None])
    shift = torch.stack((x, y, x, y), dim=-1)[:, :, None]
    base = generator.base_anchors[level].to(maps.dtype)
    return (shift + base).reshape(height * width * len(base), 4)
