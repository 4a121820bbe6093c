"""The exported head of each kind of detector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from mmflatten.export.wrappers import ExportError, padding_divisor

if TYPE_CHECKING:
    from mmflatten.export.detection.query_masks import QueryMasks

SUPPORTED = (
    'RetinaNet, ATSS, RepPoints V2, Faster, Mask, Cascade and Sparse R-CNN, DINO, Mask2Former and'
    ' EncoderMaskDetector'
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
    from mmdet.models.detectors import DINO

    from mmflatten.export.detection.queries import DINOHead
    from mmflatten.export.detection.query_masks import InstanceHead

    if type(model) is DINO and type(model.bbox_head) is MMDetDINOHead:
        return DINOHead(model)
    queries = query_masks(model)
    if queries is None:
        return None
    most = model.panoptic_fusion_head.test_cfg.get('max_per_image', 100)
    return InstanceHead(queries, max_boxes=most)


def query_masks(model: nn.Module) -> QueryMasks | None:
    """Return the queries of a Mask2Former or of an `EncoderMaskDetector`, None for other models."""
    from mmdet.models.dense_heads import Mask2FormerHead
    from mmdet.models.detectors import Mask2Former

    from mmflatten.export.detection.query_masks import QueryMasks
    from mmflatten.models.mask_head.head import EncoderMaskDetector, EncoderMaskHead

    kinds = type(model), type(getattr(model, 'panoptic_head', None))
    if kinds not in ((Mask2Former, Mask2FormerHead), (EncoderMaskDetector, EncoderMaskHead)):
        return None
    return QueryMasks(model.panoptic_head, padding_divisor(model))
