"""The exported head of each kind of detector."""

from __future__ import annotations

from torch import nn

from mmflatten.export.wrappers import ExportError

SUPPORTED = (
    'RetinaNet, ATSS, RepPoints V2, Faster, Mask, Cascade and Sparse R-CNN, DINO and Mask2Former'
)


def head_of(model: nn.Module) -> nn.Module:
    """Return the module that computes boxes, scores, labels and masks from the maps of the neck.

    It has the attributes `score_threshold` and `max_boxes`, and `has_masks` if it returns masks.

    Raises:
        ExportError: the head cannot be exported.
    """
    for find in (_dense, _two_stage, _queries):
        exported = find(model)
        if exported is not None:
            return exported
    names = ('roi_head', 'panoptic_head', 'bbox_head')
    heads = [type(getattr(model, name)).__name__ for name in names if hasattr(model, name)]
    raise ExportError(
        f'model: expected one of {SUPPORTED}, got {type(model).__name__} with'
        f' {heads[0] if heads else "no head"}. --features exports backbone and neck.'
    )


def _dense(model: nn.Module) -> nn.Module | None:
    from mmdet.models.dense_heads import AnchorHead
    from mmdet.models.dense_heads.base_dense_head import BaseDenseHead
    from mmdet.models.task_modules.coders import DeltaXYWHBBoxCoder

    from mmflatten.export.detection import dense, reppoints
    from mmflatten.models.detection.reppoints_v2_head import RepPointsV2Head

    head = getattr(model, 'bbox_head', None)
    if type(head) is RepPointsV2Head:
        return reppoints.RepPointsV2Head(head, model.test_cfg)
    # A subclass with another rule of prediction would be exported wrongly.
    if not isinstance(head, AnchorHead) or type(head.bbox_coder) is not DeltaXYWHBBoxCoder:
        return None
    if type(head)._predict_by_feat_single is not BaseDenseHead._predict_by_feat_single:
        return None
    return dense.AnchorHead(head, model.test_cfg)


def _two_stage(model: nn.Module) -> nn.Module | None:
    from mmdet.models.dense_heads import EmbeddingRPNHead, RPNHead
    from mmdet.models.roi_heads import CascadeRoIHead, SparseRoIHead, StandardRoIHead

    from mmflatten.export.detection.queries import SparseHead
    from mmflatten.export.detection.two_stage import TwoStageHead

    kinds = type(getattr(model, 'rpn_head', None)), type(getattr(model, 'roi_head', None))
    if kinds in ((RPNHead, StandardRoIHead), (RPNHead, CascadeRoIHead)):
        return TwoStageHead(model)
    return SparseHead(model) if kinds == (EmbeddingRPNHead, SparseRoIHead) else None


def _queries(model: nn.Module) -> nn.Module | None:
    from mmdet.models.dense_heads import DINOHead as MMDetDINOHead
    from mmdet.models.dense_heads import Mask2FormerHead as MMDetMask2FormerHead
    from mmdet.models.detectors import DINO, Mask2Former

    from mmflatten.export.detection.mask2former import Mask2FormerHead
    from mmflatten.export.detection.queries import DINOHead

    if type(model) is DINO and type(model.bbox_head) is MMDetDINOHead:
        return DINOHead(model)
    if type(model) is Mask2Former and type(model.panoptic_head) is MMDetMask2FormerHead:
        return Mask2FormerHead(model)
    return None
