"""The exported head of each kind of detector."""

from __future__ import annotations

from torch import nn

from mmflatten.export.wrappers import ExportError

SUPPORTED = 'RetinaNet, ATSS, Faster, Mask and Cascade R-CNN'


def head_of(model: nn.Module) -> nn.Module:
    """Return the module that computes boxes, scores, labels and masks from the maps of the neck.

    Raises:
        ExportError: the head cannot be exported.
    """
    exported = _dense(model) or _two_stage(model)
    if exported is None:
        head = getattr(model, 'roi_head', None) or getattr(model, 'bbox_head', None)
        raise ExportError(
            f'model: expected one of {SUPPORTED}, got {type(model).__name__} with'
            f' {type(head).__name__}. --features exports backbone and neck.'
        )
    return exported


def _dense(model: nn.Module) -> nn.Module | None:
    from mmdet.models.dense_heads import AnchorHead
    from mmdet.models.dense_heads.base_dense_head import BaseDenseHead
    from mmdet.models.task_modules.coders import DeltaXYWHBBoxCoder

    from mmflatten.export.detection import dense

    head = getattr(model, 'bbox_head', None)
    # A subclass with another rule of prediction would be exported wrongly.
    if not isinstance(head, AnchorHead) or type(head.bbox_coder) is not DeltaXYWHBBoxCoder:
        return None
    if type(head)._predict_by_feat_single is not BaseDenseHead._predict_by_feat_single:
        return None
    return dense.AnchorHead(head, model.test_cfg)


def _two_stage(model: nn.Module) -> nn.Module | None:
    from mmdet.models.dense_heads import RPNHead
    from mmdet.models.roi_heads import CascadeRoIHead, StandardRoIHead

    from mmflatten.export.detection.two_stage import TwoStageHead

    if type(getattr(model, 'roi_head', None)) not in (StandardRoIHead, CascadeRoIHead):
        return None
    return TwoStageHead(model) if type(model.rpn_head) is RPNHead else None
