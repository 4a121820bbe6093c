"""Targets of class activation maps of a detector."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from mmengine.config import ConfigDict
from mmengine.structures import InstanceData
from torch import Tensor, nn

from mmflatten.explain.cam_targets import Target, TargetModel

METHOD = 'layercam'  # the default: Grad-CAM weighs whole channels, so its map of one box is hot on other objects too
STAGE = -2
SAME_BOX = .01  # pixels


def targets(asked: TargetModel, image_13HW: Tensor) -> list[Target]:
    """Return the log-odds of the class scores of boxes.

    In a two-stage detector it is the score of the RoI head at the proposal that became the box, whose position counts
    as constant; with queries that of the query. NMS replaces Soft-NMS, so a score is the one before it is lowered. In a
    one-stage detector it is the score of the prior that became the box, times its centerness where the head has one.
    """
    from mmdet.models.dense_heads.base_dense_head import BaseDenseHead
    if isinstance(getattr(asked.model, 'bbox_head', None), BaseDenseHead):
        found, scores = _dense(asked.model, image_13HW, [sample.metainfo for sample in asked.samples])
    else:
        with _plain_nms(asked.model):
            found = asked.model.predict(image_13HW, asked.samples, rescale=False)[0].pred_instances
        scores = found.scores
    if len(scores) and not scores.requires_grad:
        raise ValueError(f'model ({type(asked.model).__name__}) gives scores without gradients; class activation '
                         'is for two-stage, dense one-stage and query-based detectors')
    targets = []
    for box, label, value, shown in zip(found.bboxes.tolist(), found.labels.tolist(), scores,
                                        found.scores.tolist()):
        if shown >= asked.score and (not asked.labels or label in asked.labels):
            # The log-odds of a score of nearly 1 still has a gradient that is no rounding error.
            odds = value / (value * (1 - value)).detach().clamp_min(1e-12)
            targets.append(Target(label, shown, odds, tuple(box)))
    return targets


@contextmanager
def _plain_nms(model: nn.Module) -> Iterator[None]:
    """NMS in place of the RoI head's Soft-NMS, whose scores have no gradient."""
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
    """Boxes of a one-stage detector and their scores with gradients, which mmdet cuts off on the way to its own."""
    head = model.bbox_head
    if not head.use_sigmoid_cls:
        raise ValueError(f'bbox_head ({type(head).__name__}) ends in a softmax; class activation is for sigmoid ones')
    outputs = head(model.extract_feat(image_13HW))
    found = head.predict_by_feat(*outputs, batch_img_metas=metas, rescale=False)[0]
    classes = head.cls_out_channels
    scores = torch.cat([_rows(level, classes) for level in outputs[0]]).sigmoid()
    if len(outputs) > 2:
        scores = scores * torch.cat([_rows(level, 1) for level in outputs[2]]).sigmoid()
    boxes = _boxes_of_priors(head, outputs, metas)
    chosen = []
    for box, label in zip(found.bboxes, found.labels):
        same = (boxes - box).abs().amax(1) < SAME_BOX
        chosen.append(scores[scores[:, label].detach().masked_fill(~same, -1).argmax(), label])
    return found, torch.stack(chosen) if chosen else scores.new_zeros(0)


def _rows(level_1CHW: Tensor, channels: int) -> Tensor:
    """A row of channels for each prior, in the order of mmdet."""
    return level_1CHW[0].permute(1, 2, 0).reshape(-1, channels)


def _boxes_of_priors(head: nn.Module, outputs: Sequence, metas: list[dict]) -> Tensor:
    """The box of every prior, `(N, 4)`, by the head's own decoding.

    The head sorts boxes by score; with made-up scores that fall from prior to prior they keep their order.
    """
    made_up = []
    for level in outputs[0]:
        rows = torch.full_like(_rows(level, head.cls_out_channels), -torch.inf)
        rows[:, 0] = torch.linspace(.9, .1, len(rows)).logit()
        made_up.append(rows.reshape(*level.shape[2:], -1).permute(2, 0, 1)[None])
    cfg = ConfigDict({**head.test_cfg, 'score_thr': 0, 'nms_pre': sum(map(torch.numel, made_up)), 'min_bbox_size': -1})
    with torch.no_grad():
        return head.predict_by_feat(made_up, *outputs[1:], batch_img_metas=metas, cfg=cfg, with_nms=False)[0].bboxes
