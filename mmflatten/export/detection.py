"""One-stage detectors with plain tensors as inputs and outputs, and their boxes."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mmflatten.export.wrappers import ExportedModel, ExportError


class Detector(ExportedModel):
    """Every anchor of a one-stage detector, decoded; `select_boxes` keeps the best of them.

    `boxes` `(A, 4)`, x1 y1 x2 y2 in pixels of the image; `scores` `(A, classes)`; `factors` `(A,)`, which the scores of
    the kept ones are multiplied by (ATSS's centreness; ones in RetinaNet); `levels` `(A,)`, the map of each.
    """

    task, outputs = 'detection', ('boxes', 'scores', 'factors', 'levels')
    needs_test_cfg = True

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.stride = max(max(stride) for stride in model.bbox_head.prior_generator.strides)

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        head = self.model.bbox_head
        scores, deltas, *factors = head(self.model.extract_feat(self.prepare(image)))
        priors = head.prior_generator.grid_priors([level.shape[-2:] for level in scores], device=image.device)
        boxes = [head.bbox_coder.decode(prior, _rows(delta, 4)) for prior, delta in zip(priors, deltas)]
        scores = [_rows(level, head.cls_out_channels) for level in scores]
        scores = [level.sigmoid() if head.use_sigmoid_cls else level.softmax(-1)[:, :-1] for level in scores]
        factors = [_rows(level, 1)[:, 0].sigmoid() for level in factors[0]] if factors else [
            torch.ones_like(level[:, 0]) for level in scores]
        levels = [torch.full_like(level, number, dtype=torch.long) for number, level in enumerate(factors)]
        H, W = (torch.scalar_tensor(side, dtype=image.dtype) for side in image.shape[-2:])
        inside = torch.minimum(torch.cat(boxes).clamp(min=0), torch.stack((W, H, W, H)))
        return inside, torch.cat(scores), torch.cat(factors), torch.cat(levels)


def _rows(x_1CHW: Tensor, channels: int) -> Tensor:
    """`(1, A * channels, H, W) -> (H * W * A, channels)`, in the order of the anchors."""
    return x_1CHW[0].permute(1, 2, 0).reshape(-1, channels)


def wrap(model: nn.Module) -> ExportedModel:
    """Wrap a one-stage detector.

    Raises:
        ExportError: a two-stage or another detector whose boxes cannot be exported.
    """
    from mmdet.models.dense_heads import AnchorHead
    if getattr(model, 'with_roi_head', False):
        raise ExportError(f'{type(model).__name__} has two stages: the second works on as many regions as the first '
                          'finds, in operators of mmcv that no format has. --features exports backbone and neck; '
                          'RetinaNet and ATSS can be exported whole')
    head = getattr(model, 'bbox_head', None)
    if not isinstance(head, AnchorHead) or head.bbox_coder.encode_size != 4 or hasattr(model, 'mask_head'):
        raise ExportError(f'the boxes of {type(model).__name__} with {type(head).__name__} cannot be exported, only '
                          'those of RetinaNet and ATSS; --features exports backbone and neck')
    return Detector(model)


def select_boxes(outputs: Mapping[str, np.ndarray], test_cfg: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """What mmdet does behind the network: the best anchors of each map, then non-maximum suppression.

    It is not in the graph: formats disagree on it, and on graphs whose results differ in number.

    Args:
        outputs: of a detector's engine, see `wrappers.Detector`.
        test_cfg: the config's `model.test_cfg`, which the metadata hold.

    Returns:
        `boxes` `(n, 4)`, `scores` `(n,)` and `labels` `(n,)`, best first.
    """
    from mmcv.ops import batched_nms
    from mmdet.models.utils import filter_scores_and_topk

    boxes, scores, factors, levels = (torch.from_numpy(outputs[name])
                                      for name in ('boxes', 'scores', 'factors', 'levels'))
    kept = []
    for level in range(int(levels.max()) + 1):
        here = levels == level
        best, labels, _, rest = filter_scores_and_topk(
            scores[here], test_cfg.get('score_thr', 0), test_cfg.get('nms_pre', -1),
            dict(boxes=boxes[here], factors=factors[here]))
        kept.append((rest['boxes'], best * rest['factors'], labels))
    boxes, scores, labels = map(torch.cat, zip(*kept))
    large = ((boxes[:, 2:] - boxes[:, :2]) > test_cfg.get('min_bbox_size', -1)).all(1)
    boxes, scores, labels = boxes[large], scores[large], labels[large]
    if len(boxes):
        found, order = batched_nms(boxes, scores, labels, dict(test_cfg['nms']))
        boxes, scores, labels = boxes[order], found[:, -1], labels[order]
    most = test_cfg.get('max_per_img', len(boxes))
    return {name: x[:most].numpy() for name, x in (('boxes', boxes), ('scores', scores), ('labels', labels))}
