"""Test-time augmentation for detectors with and without masks, which merges views before NMS. Requires mmdet."""
from dataclasses import dataclass
from typing import Any

import torch
from mmcv.ops import batched_nms
from mmdet.models.detectors import SingleStageDetector
from mmdet.models.layers import multiclass_nms
from mmdet.models.roi_heads import CascadeRoIHead, HybridTaskCascadeRoIHead, StandardRoIHead
from mmdet.structures import DetDataSample
from mmdet.structures.bbox import bbox2roi, bbox_flip, scale_boxes
from mmengine.model import BaseTTAModel
from mmengine.structures import InstanceData
from torch import Tensor

from mmflatten.registry import MODELS

_MASK_AXES = dict(horizontal=(-1, ), vertical=(-2, ), diagonal=(-2, -1))


@dataclass(frozen=True)
class View:
    """One view of a batch of images: feature maps, and data samples with the scale and flip of each image.

    `semantic` contains the semantic features of HTC as a keyword argument of the RoI head. It is empty for other
    detectors.
    """

    maps: tuple[Tensor, ...]
    samples: list[DetDataSample]
    semantic: dict[str, Tensor]

    @property
    def metas(self) -> list[dict]:
        """Meta information of each image, such as scale, shape and flip."""
        return [sample.metainfo for sample in self.samples]


@MODELS.register_module()
class InstanceTTAModel(BaseTTAModel):
    """Test-time augmentation that merges the predictions of all views, then applies the NMS of the detector once.

    - Mask, Faster and Cascade R-CNN and HTC: proposals of all views are merged by the RPN's NMS, ignoring levels.
      Each view classifies and refines all merged proposals. Boxes and class scores are averaged over the views before
      NMS. Masks are the mean probabilities of the views in the remaining boxes. This is the procedure of mmdet 2.x.
    - One-stage detectors: NMS over the candidates of all views (`nms_pre` per level and view).
    - Other detectors, such as Sparse R-CNN, which has no NMS: detections of the views are merged by class-wise NMS
      with `iou_threshold` and `max_per_img`. A box keeps the mask of its view.

    mmdet's `DetTTAModel` merges final boxes and does not support masks.

    Args:
        iou_threshold: IoU threshold of the class-wise NMS in the last case.
        max_per_img: maximum number of detections per image in the last case.
    """

    def __init__(self, iou_threshold: float = 0.5, max_per_img: int = 100, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.iou_threshold = iou_threshold
        self.max_per_img = max_per_img

    def test_step(self, data: dict) -> list[DetDataSample]:
        """Detect objects in a batch. Each value of `data` is a list of views, each a list of images."""
        module = self.module
        if type(getattr(module, 'roi_head', None)) in (StandardRoIHead, CascadeRoIHead, HybridTaskCascadeRoIHead):
            detect = _detect_two_stage
        elif isinstance(module, SingleStageDetector) and 'nms' in (module.bbox_head.test_cfg or {}):
            detect = _detect_one_stage
        else:
            return super().test_step(data)
        views = [_extract_view(module, dict(zip(data, view))) for view in zip(*data.values())]
        for sample, instances in zip(views[0].samples, detect(module, views)):
            sample.pred_instances = instances
        return views[0].samples

    def merge_preds(self, data_samples_list: list[list[DetDataSample]]) -> list[DetDataSample]:
        """Merge the final detections of all views of each image into the sample of the first view."""
        nms = dict(type='nms', iou_threshold=self.iou_threshold)
        for views in data_samples_list:
            views[0].pred_instances = _apply_nms([_unflip(view) for view in views], nms, self.max_per_img)
        return [views[0] for views in data_samples_list]


def _extract_view(module: Any, data: dict) -> View:
    data = module.data_preprocessor(data, False)
    maps = module.extract_feat(data['inputs'])
    with_semantic = getattr(getattr(module, 'roi_head', None), 'with_semantic', False)
    semantic = dict(semantic_feat=module.roi_head.semantic_head(maps)[1]) if with_semantic else {}
    return View(maps, data['data_samples'], semantic)


def _detect_one_stage(module: Any, views: list[View]) -> list[InstanceData]:
    """Return the detections of each image in original coordinates."""
    head = module.bbox_head
    candidates = [_to_image(view, head.predict_by_feat(*head(view.maps), batch_img_metas=view.metas, with_nms=False))
                  for view in views]
    return [_apply_nms(instances, head.test_cfg.nms, head.test_cfg.max_per_img) for instances in zip(*candidates)]


def _detect_two_stage(module: Any, views: list[View]) -> list[InstanceData]:
    """Return the detections of each image in original coordinates."""
    rpn, rcnn = module.test_cfg.rpn, module.test_cfg.rcnn
    candidates = [_to_image(view, module.rpn_head.predict(view.maps, view.samples, rescale=False)) for view in views]
    proposals = [_apply_nms(instances, rpn.nms, rpn.max_per_img).bboxes for instances in zip(*candidates)]
    predictions = [_to_image(view, module.roi_head.predict_bbox(
        view.maps, view.metas, [InstanceData(bboxes=boxes) for boxes in _to_view(view, proposals)],
        rcnn_test_cfg=None, rescale=False, **view.semantic)) for view in views]
    results = []
    for by_view in zip(*predictions):
        boxes, scores = (torch.stack([getattr(instances, name) for instances in by_view]).mean(0)
                         for name in ('bboxes', 'scores'))
        scored, labels = multiclass_nms(boxes, scores, rcnn.score_thr, rcnn.nms, rcnn.max_per_img)
        results.append(InstanceData(bboxes=scored[:, :-1], scores=scored[:, -1], labels=labels))
    return _add_masks(module.roi_head, views, results) if module.with_mask else results


def _add_masks(roi_head: Any, views: list[View], results: list[InstanceData]) -> list[InstanceData]:
    """Add the mean mask of all views to each detection, at the size of the original image."""
    boxes = [instances.bboxes for instances in results]
    by_view = [_mask_probabilities(roi_head, view, _to_view(view, boxes)) for view in views]
    head = roi_head.mask_head if type(roi_head) is StandardRoIHead else roi_head.mask_head[-1]
    original = [dict(ori_shape=meta['ori_shape'], scale_factor=(1., 1.)) for meta in views[0].metas]
    return head.predict_by_feat([torch.stack(masks).mean(0) for masks in zip(*by_view)], results, original,
                                roi_head.test_cfg, rescale=True, activate_map=True)


def _mask_probabilities(roi_head: Any, view: View, boxes: list[Tensor]) -> list[Tensor]:
    """Return mask probabilities (n, classes, h, w) in the n boxes of each image, unflipped and averaged over heads.

    mmdet's public methods return pasted binary masks, so this calls the protected `_mask_forward`.
    """
    counts = [len(image_boxes) for image_boxes in boxes]
    if sum(counts) == 0:
        return boxes
    rois = bbox2roi(boxes)
    if type(roi_head) is StandardRoIHead:
        logits = [roi_head._mask_forward(view.maps, rois)['mask_preds']]
    elif type(roi_head) is CascadeRoIHead:
        logits = [roi_head._mask_forward(stage, view.maps, rois)['mask_preds'] for stage in range(roi_head.num_stages)]
    else:
        logits = roi_head._mask_forward(-1, view.maps, rois, training=False, **view.semantic)['mask_preds']
    masks = torch.stack([head_logits.sigmoid() for head_logits in logits]).mean(0)
    return [_flip_masks(image_masks, meta) for image_masks, meta in zip(masks.split(counts), view.metas)]


def _apply_nms(views: tuple[InstanceData, ...] | list[InstanceData], nms: dict, limit: int) -> InstanceData:
    """Apply NMS to the detections of all views of an image. Returns at most `limit`, ordered by score."""
    instances = InstanceData.cat(list(views))
    if len(instances) == 0:
        return instances
    scored, keep = batched_nms(instances.bboxes, instances.scores, instances.labels, nms)
    instances = instances[keep]
    instances.scores = scored[:, -1]  # soft-NMS lowers scores
    return instances[:limit]


def _to_view(view: View, boxes: list[Tensor]) -> list[Tensor]:
    """Transform boxes of each image from original coordinates to those of the view."""
    scaled = [scale_boxes(image_boxes, meta['scale_factor']) for image_boxes, meta in zip(boxes, view.metas)]
    return [_flip(image_boxes, meta, meta['img_shape']) for image_boxes, meta in zip(scaled, view.metas)]


def _to_image(view: View, results: list[InstanceData]) -> list[InstanceData]:
    """Transform boxes of each image from coordinates of the view to original coordinates, in place.

    A row may hold several boxes (class-specific regression).
    """
    for instances, meta in zip(results, view.metas):
        instances.bboxes = scale_boxes(_flip(instances.bboxes, meta, meta['img_shape']),
                                       [1 / factor for factor in meta['scale_factor']])
    return results


def _flip(boxes: Tensor, meta: dict, shape: tuple[int, int]) -> Tensor:
    return bbox_flip(boxes, shape, meta['flip_direction']) if meta.get('flip') else boxes


def _flip_masks(masks: Tensor, meta: dict) -> Tensor:
    return torch.flip(masks, _MASK_AXES[meta['flip_direction']]) if meta.get('flip') else masks


def _unflip(view: DetDataSample) -> InstanceData:
    """Return the final detections of one view, already at the original size, without its flip."""
    source, meta = view.pred_instances, view.metainfo
    result = InstanceData(bboxes=_flip(source.bboxes, meta, meta['ori_shape']), scores=source.scores,
                          labels=source.labels)
    if 'masks' in source:
        result.masks = _flip_masks(source.masks, meta)
    return result
