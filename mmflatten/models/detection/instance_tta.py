"""Test-time augmentation for detectors with and without masks (needs mmdet): views are merged before suppression."""
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
    """One view of a batch of images: its feature maps, and the samples with scale and flip of each image.

    `semantic` has HTC's map of its semantic branch as an argument of the RoI head, and is empty elsewhere.
    """

    maps: tuple[Tensor, ...]
    samples: list[DetDataSample]
    semantic: dict[str, Tensor]

    @property
    def metas(self) -> list[dict]:
        """Scale, shape and flip of each image."""
        return [sample.metainfo for sample in self.samples]


@MODELS.register_module()
class InstanceTTAModel(BaseTTAModel):
    """Merge what a detector sees in all views, then suppress duplicates once, as its own `test_cfg` says.

    - Mask, Faster and Cascade R-CNN and HTC: the views' proposals are merged by the RPN's NMS, without regard to
      levels. Every view judges each merged proposal; boxes and class scores are averaged over the views, then
      suppressed. Masks are the views' mean probabilities in the boxes that remain. mmdet 2.x tested so.
    - One-stage detectors: the candidates of all views (`nms_pre` per level and view) are suppressed together.
    - Others, such as Sparse R-CNN, which suppresses nothing: finished detections are merged by class-wise NMS, with
      `iou_threshold` and `max_per_img`; a kept box keeps the mask of the view it was found in.

    mmdet's `DetTTAModel` merges finished boxes and refuses masks.

    Args:
        iou_threshold: in the last case, boxes of one class that overlap more are duplicates.
        max_per_img: in the last case, detections kept per image.
    """

    def __init__(self, iou_threshold: float = 0.5, max_per_img: int = 100, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.iou_threshold = iou_threshold
        self.max_per_img = max_per_img

    def test_step(self, data: dict) -> list[DetDataSample]:
        """Detect in a batch; of every entry of `data`, the list of its views, each a list over the images."""
        module = self.module
        if type(getattr(module, 'roi_head', None)) in (StandardRoIHead, CascadeRoIHead, HybridTaskCascadeRoIHead):
            detect = _detect_two_stage
        elif isinstance(module, SingleStageDetector) and 'nms' in (module.bbox_head.test_cfg or {}):
            detect = _detect_one_stage
        else:
            return super().test_step(data)
        views = [_look(module, dict(zip(data, view))) for view in zip(*data.values())]
        for sample, found in zip(views[0].samples, detect(module, views)):
            sample.pred_instances = found
        return views[0].samples

    def merge_preds(self, data_samples_list: list[list[DetDataSample]]) -> list[DetDataSample]:
        """Merge, for every image, the finished detections of its views into the first of them."""
        nms = dict(type='nms', iou_threshold=self.iou_threshold)
        for views in data_samples_list:
            views[0].pred_instances = _suppress([_unflip(view) for view in views], nms, self.max_per_img)
        return [views[0] for views in data_samples_list]


def _look(module: Any, data: dict) -> View:
    data = module.data_preprocessor(data, False)
    maps = module.extract_feat(data['inputs'])
    with_semantic = getattr(getattr(module, 'roi_head', None), 'with_semantic', False)
    semantic = dict(semantic_feat=module.roi_head.semantic_head(maps)[1]) if with_semantic else {}
    return View(maps, data['data_samples'], semantic)


def _detect_one_stage(module: Any, views: list[View]) -> list[InstanceData]:
    """Detections of each image, in its original coordinates."""
    head = module.bbox_head
    candidates = [_in_image(view, head.predict_by_feat(*head(view.maps), batch_img_metas=view.metas, with_nms=False))
                  for view in views]
    return [_suppress(found, head.test_cfg.nms, head.test_cfg.max_per_img) for found in zip(*candidates)]


def _detect_two_stage(module: Any, views: list[View]) -> list[InstanceData]:
    """Detections of each image, in its original coordinates."""
    rpn, rcnn = module.test_cfg.rpn, module.test_cfg.rcnn
    seen = [_in_image(view, module.rpn_head.predict(view.maps, view.samples, rescale=False)) for view in views]
    proposals = [_suppress(found, rpn.nms, rpn.max_per_img).bboxes for found in zip(*seen)]
    judged = [_in_image(view, module.roi_head.predict_bbox(
        view.maps, view.metas, [InstanceData(bboxes=boxes) for boxes in _in_view(view, proposals)],
        rcnn_test_cfg=None, rescale=False, **view.semantic)) for view in views]
    results = []
    for opinions in zip(*judged):
        boxes, scores = (torch.stack([getattr(found, name) for found in opinions]).mean(0)
                         for name in ('bboxes', 'scores'))
        scored, labels = multiclass_nms(boxes, scores, rcnn.score_thr, rcnn.nms, rcnn.max_per_img)
        results.append(InstanceData(bboxes=scored[:, :-1], scores=scored[:, -1], labels=labels))
    return _add_masks(module.roi_head, views, results) if module.with_mask else results


def _add_masks(roi_head: Any, views: list[View], results: list[InstanceData]) -> list[InstanceData]:
    """Paste the mean mask of all views into each box of the original image."""
    boxes = [found.bboxes for found in results]
    by_view = [_mask_probabilities(roi_head, view, _in_view(view, boxes)) for view in views]
    head = roi_head.mask_head if type(roi_head) is StandardRoIHead else roi_head.mask_head[-1]
    original = [dict(ori_shape=meta['ori_shape'], scale_factor=(1., 1.)) for meta in views[0].metas]
    return head.predict_by_feat([torch.stack(masks).mean(0) for masks in zip(*by_view)], results, original,
                                roi_head.test_cfg, rescale=True, activate_map=True)


def _mask_probabilities(roi_head: Any, view: View, boxes: list[Tensor]) -> list[Tensor]:
    """Probabilities (n, classes, h, w) in the n boxes of each image, not mirrored: the mean of the mask heads.

    mmdet's public methods give masks pasted and cut at the threshold, so this calls one that is meant for subclasses.
    """
    numbers = [len(of_image) for of_image in boxes]
    if sum(numbers) == 0:
        return boxes
    rois = bbox2roi(boxes)
    if type(roi_head) is StandardRoIHead:
        logits = [roi_head._mask_forward(view.maps, rois)['mask_preds']]
    elif type(roi_head) is CascadeRoIHead:
        logits = [roi_head._mask_forward(stage, view.maps, rois)['mask_preds'] for stage in range(roi_head.num_stages)]
    else:
        logits = roi_head._mask_forward(-1, view.maps, rois, training=False, **view.semantic)['mask_preds']
    masks = torch.stack([of_head.sigmoid() for of_head in logits]).mean(0)
    return [torch.flip(of_image, _MASK_AXES[meta['flip_direction']]) if meta.get('flip') else of_image
            for of_image, meta in zip(masks.split(numbers), view.metas)]


def _suppress(views: tuple[InstanceData, ...] | list[InstanceData], nms: dict, limit: int) -> InstanceData:
    """The detections of all views of an image without duplicates, the best first."""
    found = InstanceData.cat(list(views))
    if len(found) == 0:
        return found
    scored, keep = batched_nms(found.bboxes, found.scores, found.labels, nms)
    found = found[keep]
    found.scores = scored[:, -1]  # soft-NMS lowers them
    return found[:limit]


def _in_view(view: View, boxes: list[Tensor]) -> list[Tensor]:
    """Boxes of each image in the coordinates of the view."""
    scaled = [scale_boxes(of_image, meta['scale_factor']) for of_image, meta in zip(boxes, view.metas)]
    return [_flip(of_image, meta, meta['img_shape']) for of_image, meta in zip(scaled, view.metas)]


def _in_image(view: View, results: list[InstanceData]) -> list[InstanceData]:
    """Boxes, one or several in a row, of each image in its original coordinates."""
    for found, meta in zip(results, view.metas):
        found.bboxes = scale_boxes(_flip(found.bboxes, meta, meta['img_shape']),
                                   [1 / factor for factor in meta['scale_factor']])
    return results


def _flip(boxes: Tensor, meta: dict, shape: tuple[int, int]) -> Tensor:
    return bbox_flip(boxes, shape, meta['flip_direction']) if meta.get('flip') else boxes


def _unflip(view: DetDataSample) -> InstanceData:
    """Finished detections of one view, which are of the original size already, not mirrored."""
    found, meta = view.pred_instances, view.metainfo
    merged = InstanceData(bboxes=_flip(found.bboxes, meta, meta['ori_shape']), scores=found.scores, labels=found.labels)
    if 'masks' in found:
        merged.masks = torch.flip(found.masks, _MASK_AXES[meta['flip_direction']]) if meta.get('flip') else found.masks
    return merged
