"""Targets of class activation maps of a detector."""
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from mmengine.config import ConfigDict
from torch import Tensor, nn

from mmflatten.explain.cam import Target, TargetModel

METHOD = 'layercam'  # default; Grad-CAM weights whole channels, so the map of one box is also hot on other objects
STAGE = -2


def targets(model: TargetModel, image_13HW: Tensor) -> list[Target]:
    """Return the log-odds of the class scores of boxes.

    Two-stage detectors: score of the RoI head for the proposal of the box, whose position is treated as constant.
    Query-based detectors: score of the query. One-stage detectors: score of the prior of the box, multiplied by its
    centerness if the head predicts one. NMS replaces Soft-NMS, so scores are not reduced.
    """
    with _attached_scores(model.model):
        instances = model.model.predict(image_13HW, model.samples, rescale=False)[0].pred_instances
    scores = instances.scores
    if len(scores) and not scores.requires_grad:
        raise ValueError('model: expected a two-stage, dense one-stage or query-based detector, got '
                         f'{type(model.model).__name__}, whose scores have no gradients.')
    # Has the gradient of the log-odds, which does not vanish for scores close to 1.
    odds = scores / (scores * (1 - scores)).detach().clamp_min(1e-12)
    found = zip(instances.labels.tolist(), scores.tolist(), odds, instances.bboxes.tolist())
    return [Target(label, score, value, tuple(box)) for label, score, value, box in found
            if score >= model.score and (not model.labels or label in model.labels)]


@contextmanager
def _attached_scores(model: nn.Module) -> Iterator[None]:
    """Keep the gradients of scores: Soft-NMS has none, and a dense head of mmdet 3.5 detaches its outputs."""
    from mmdet.models.dense_heads.base_dense_head import BaseDenseHead
    head = getattr(model, 'roi_head', None) or getattr(model, 'bbox_head', None)
    cfg = getattr(head, 'test_cfg', None) or {}
    replaced = [(cfg, 'nms', cfg['nms'])] if 'nms' in cfg else []
    if replaced and cfg['nms'].type == 'soft_nms':
        cfg['nms'] = ConfigDict(type='nms', iou_threshold=cfg['nms'].get('iou_threshold', .3))  # the default of mmcv
    if isinstance(head, BaseDenseHead):
        names = vars(sys.modules[type(head).predict_by_feat.__module__])
        select = names['select_single_mlvl']
        replaced.append((names, 'select_single_mlvl', select))
        names['select_single_mlvl'] = lambda levels, image, detach=True: select(levels, image, detach=False)
    try:
        yield
    finally:
        for holder, name, value in replaced:
            holder[name] = value
