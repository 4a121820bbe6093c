"""Export of one-stage detectors, and the selection of boxes from their outputs."""
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mmflatten.export.wrappers import ExportedModel, ExportError


class ExportedDetector(ExportedModel):
    """Decoded boxes of all anchors of a one-stage detector; `select_boxes` selects the best.

    `boxes` `(A, 4)`, x1 y1 x2 y2 in pixels of the image; `scores` `(A, classes)`; `factors` `(A,)`, multiplied with the
    scores of the selected boxes (ATSS's centreness; ones for RetinaNet); `levels` `(A,)`, index of the feature map.
    Raises ExportError if the detector is neither RetinaNet nor ATSS.
    """

    task, outputs = 'detection', ('boxes', 'scores', 'factors', 'levels')
    needs_test_cfg = True

    def __init__(self, model: nn.Module) -> None:
        from mmdet.models.dense_heads import AnchorHead
        super().__init__(model)
        if getattr(model, 'with_roi_head', False):
            raise ExportError(f'model: expected RetinaNet or ATSS, got the two-stage {type(model).__name__}, whose '
                              "second stage needs mmcv's operators. --features exports backbone and neck.")
        head = getattr(model, 'bbox_head', None)
        if not isinstance(head, AnchorHead) or head.bbox_coder.encode_size != 4 or hasattr(model, 'mask_head'):
            raise ExportError(f'model: expected RetinaNet or ATSS, got {type(model).__name__} with '
                              f'{type(head).__name__}. --features exports backbone and neck.')
        self.stride = max(max(stride) for stride in head.prior_generator.strides)

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


wrap = ExportedDetector


def _rows(x_1CHW: Tensor, channels: int) -> Tensor:
    """Reshape `(1, A * channels, H, W)` to `(H * W * A, channels)`, in the order of the anchors."""
    return x_1CHW[0].permute(1, 2, 0).reshape(-1, channels)


def select_boxes(outputs: Mapping[str, np.ndarray], test_cfg: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Select the best anchors of each feature map and apply non-maximum suppression, as mmdet does.

    This is not part of the graph because the formats implement suppression differently.

    Args:
        outputs: of an engine, see `ExportedDetector`.
        test_cfg: from the engine's metadata.

    Returns:
        `boxes` `(n, 4)`, `scores` `(n,)` and `labels` `(n,)`, best first.
    """
    from mmcv.ops import batched_nms
    from mmdet.models.utils import filter_scores_and_topk

    boxes, scores, factors, levels = (torch.from_numpy(outputs[name]) for name in ExportedDetector.outputs)
    selected = []
    for level in levels.unique():
        here = levels == level
        best, labels, _, rest = filter_scores_and_topk(
            scores[here], test_cfg.get('score_thr', 0), test_cfg.get('nms_pre', -1),
            dict(boxes=boxes[here], factors=factors[here]))
        selected.append((rest['boxes'], best * rest['factors'], labels))
    boxes, scores, labels = map(torch.cat, zip(*selected))
    large = ((boxes[:, 2:] - boxes[:, :2]) > test_cfg.get('min_bbox_size', -1)).all(1)
    boxes, scores, labels = boxes[large], scores[large], labels[large]
    if len(boxes):
        suppressed, order = batched_nms(boxes, scores, labels, dict(test_cfg['nms']))
        boxes, scores, labels = boxes[order], suppressed[:, -1], labels[order]
    most = test_cfg.get('max_per_img', len(boxes))
    return dict(boxes=boxes[:most].numpy(), scores=scores[:most].numpy(), labels=labels[:most].numpy())
