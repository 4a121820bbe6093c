"""From the anchors that an exported detector scores to its boxes."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


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
