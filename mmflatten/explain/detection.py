"""Targets of class activation maps of a detector."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from mmengine.config import ConfigDict
from mmengine.structures import InstanceData
from torch import Tensor, nn

from mmflatten.explain.cam_targets import Target, TargetModel

METHOD = 'layercam'  # default; Grad-CAM weights whole channels, so the map of one box is also hot on other objects
STAGE = -2
SAME_BOX = .01  # tolerance in pixels


def targets(model: TargetModel, image_13HW: Tensor) -> list[Target]:
    """Return the log-odds of the class scores of boxes.

    Two-stage detectors: score of the RoI head for the proposal of the box, whose position is treated as constant. NMS
    replaces Soft-NMS, so scores are not reduced. Query-based detectors: score of the query. One-stage detectors: score
    of the prior of the box, multiplied by its centerness if the head predicts one.
    """
    from mmdet.models.dense_heads.base_dense_head import BaseDenseHead
    if isinstance(getattr(model.model, 'bbox_head', None), BaseDenseHead):
        instances, scores = _dense(model.model, image_13HW, [sample.metainfo for sample in model.samples])
    else:
        with _plain_nms(model.model):
            instances = model.model.predict(image_13HW, model.samples, rescale=False)[0].pred_instances
        scores = instances.scores
    if len(scores) and not scores.requires_grad:
        raise ValueError('model: expected a two-stage, dense one-stage or query-based detector, got '
                         f'{type(model.model).__name__}, whose scores have no gradients.')
    targets = []
    for box, label, value, score in zip(instances.bboxes.tolist(), instances.labels.tolist(), scores,
                                        instances.scores.tolist()):
        if score >= model.score and (not model.labels or label in model.labels):
            # Has the gradient of the log-odds, which does not vanish for scores close to 1.
            odds = value / (value * (1 - value)).detach().clamp_min(1e-12)
            targets.append(Target(label, score, odds, tuple(box)))
    return targets


@contextmanager
def _plain_nms(model: nn.Module) -> Iterator[None]:
    """Replace the Soft-NMS of the RoI head, whose scores have no gradient, with NMS."""
    cfg = getattr(getattr(model, 'roi_head', None), 'test_cfg', None) or {}
    nms = cfg.get('nms')
    if nms and nms.type == 'soft_nms':
        cfg['nms'] = ConfigDict(type='nms', iou_threshold=nms.get('iou_threshold', .3))  # the default of mmcv
    try:
        yield
    finally:
        if nms:
            cfg['nms'] = nms


def _dense(model: nn.Module, image_13HW: Tensor, metas: list[dict]) -> tuple[InstanceData, Tensor]:
    """Return the boxes of a one-stage detector and their scores with gradients, which mmdet detaches."""
    head = model.bbox_head
    if not head.use_sigmoid_cls:
        raise ValueError(f'bbox_head: expected a head with sigmoid, got {type(head).__name__} with softmax.')
    outputs = head(model.extract_feat(image_13HW))
    instances = head.predict_by_feat(*outputs, batch_img_metas=metas, rescale=False)[0]
    classes = head.cls_out_channels
    scores = torch.cat([_rows(level, classes) for level in outputs[0]]).sigmoid()
    if len(outputs) > 2:
        scores = scores * torch.cat([_rows(level, 1) for level in outputs[2]]).sigmoid()
    boxes = _boxes_of_priors(head, outputs, metas)
    chosen = []
    for box, label in zip(instances.bboxes, instances.labels):
        same = (boxes - box).abs().amax(1) < SAME_BOX
        chosen.append(scores[scores[:, label].detach().masked_fill(~same, -1).argmax(), label])
    return instances, torch.stack(chosen) if chosen else scores.new_zeros(0)


def _rows(level_1CHW: Tensor, channels: int) -> Tensor:
    """Return one row of channels per prior, in the order of mmdet."""
    return level_1CHW[0].permute(1, 2, 0).reshape(-1, channels)


def _boxes_of_priors(head: nn.Module, outputs: Sequence, metas: list[dict]) -> Tensor:
    """Decode the boxes of all priors, `(N, 4)`, with the head.

    The head sorts boxes by score. Artificial scores that decrease from prior to prior keep them in order.
    """
    logits = []
    for level in outputs[0]:
        rows = torch.full_like(_rows(level, head.cls_out_channels), -torch.inf)
        rows[:, 0] = torch.linspace(.9, .1, len(rows)).logit()
        logits.append(rows.reshape(*level.shape[2:], -1).permute(2, 0, 1)[None])
    cfg = ConfigDict({**head.test_cfg, 'score_thr': 0, 'nms_pre': sum(map(torch.numel, logits)), 'min_bbox_size': -1})
    with torch.no_grad():
        return head.predict_by_feat(logits, *outputs[1:], batch_img_metas=metas, cfg=cfg, with_nms=False)[0].bboxes
