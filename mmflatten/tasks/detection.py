"""Object detection and instance segmentation, on mmdet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmflatten.tasks import Task, register_task, with_own_collate

if TYPE_CHECKING:
    from mmengine.config import Config
    from mmengine.structures import BaseDataElement, InstanceData
    from torch import Tensor, nn

NUM_PROPOSALS = 1000  # through the box head of a two-stage detector
NUM_MASKS = 100  # through its mask head: as many as mmdet keeps of the boxes


@register_task
class Detection(Task):
    """Boxes, and masks where the model has a mask head."""

    name, abbreviation, scope = 'detection', 'det', 'mmdet'
    input_shape = (800, 1280)
    prediction = 'pred_instances'
    hub_tag = 'object-detection'
    visualizer_type = 'DetLocalVisualizer'
    annotation_files = True
    has_instances = True
    trains_on_outputs = False  # NMS is part of a step

    def inferencer(self, cfg: Config, checkpoint: str | None, device: str) -> Any:
        from mmdet.apis import DetInferencer

        return with_own_collate(DetInferencer)(cfg, checkpoint, device=device, show_progress=False)

    def preprocess(self, inferencer: Any, images: list) -> dict:
        # mmdet's inferencer returns the images too
        return super().preprocess(inferencer, images)[1]

    def restore(self, entry: dict) -> BaseDataElement:
        from mmdet.structures import DetDataSample

        sample = DetDataSample()
        for name in ('gt_instances', 'pred_instances'):
            if name in entry:
                setattr(sample, name, _instances(entry[name], entry['ori_shape']))
        return sample

    def forward(self, model: nn.Module, image: Tensor) -> Any:
        if not getattr(model, 'with_roi_head', False):
            return model._forward(image, _samples(image))
        return _forward_two_stages(model, image)

    def forward_as_tested(self, model: nn.Module, image: Tensor) -> Any:
        if not getattr(model, 'with_roi_head', False):
            return self.forward(model, image)
        test = model.test_cfg
        masks = test.rcnn.max_per_img
        proposals = test.rpn.max_per_img if test.get('rpn') else NUM_PROPOSALS
        # A proposal can become several instances, of several classes.
        return _forward_two_stages(model, image, max(proposals, masks), masks)

    def predict(self, model: nn.Module, image: Tensor) -> Any:
        return model.predict(image, _samples(image), rescale=False)


def _samples(image: Tensor) -> list:
    """Return data samples of a batch that is neither resized nor padded."""
    from mmdet.structures import DetDataSample

    size = tuple(image.shape[-2:])
    meta = dict(
        img_shape=size,
        batch_input_shape=size,
        pad_shape=size,
        ori_shape=size,
        scale_factor=(1.0, 1.0),
    )
    return [DetDataSample(metainfo=meta) for _ in image]


def _instances(stored: dict, hw_shape: tuple[int, int]) -> InstanceData:
    import numpy as np
    import torch
    from mmengine.structures import InstanceData
    from pycocotools import mask as coco_mask

    fields = {}
    for name in ('bboxes', 'labels', 'scores'):
        if name in stored:
            fields[name] = torch.as_tensor(stored[name])
    if 'masks' in stored:
        masks = np.array([coco_mask.decode(mask) for mask in stored['masks']], dtype=bool)
        fields['masks'] = torch.from_numpy(masks.reshape(-1, *hw_shape[:2]))
    return InstanceData(**fields)


def _forward_two_stages(
    model: nn.Module, image: Tensor, proposals: int = NUM_PROPOSALS, masks: int = NUM_MASKS
) -> None:
    # The heads get regions of the finest map only: extractors sort those of several maps by a size
    # that is unknown on the meta device.
    from mmdet.models import roi_heads

    head, features = model.roi_head, model.extract_feat(image)
    if getattr(model, 'with_semantic_head', False):  # of Panoptic FPN
        model.semantic_head(features)
    if isinstance(head, roi_heads.SparseRoIHead):
        _forward_sparse(model, features)
        return
    model.rpn_head(features)
    rois = image.new_empty(proposals, 5)
    if isinstance(head, roi_heads.HybridTaskCascadeRoIHead):
        _forward_hybrid(head, features, rois, masks)
    elif isinstance(head, roi_heads.CascadeRoIHead):
        for stage in range(head.num_stages):
            _boxes_and_masks(head, features, rois, masks, stage)
    elif isinstance(head, roi_heads.StandardRoIHead):
        _boxes_and_masks(head, features, rois, masks)
    else:
        raise ValueError(
            'roi_head: expected a class derived from the standard, cascade, HTC or Sparse R-CNN'
            f' head of mmdet, got {type(head).__name__}. Other heads cannot be counted.'
        )


def _forward_sparse(model: nn.Module, features: tuple[Tensor, ...]) -> None:
    """Run Sparse R-CNN: a learned number of proposals, whose features pass from stage to stage."""
    head = model.roi_head
    queries = model.rpn_head.init_proposal_features.weight[None]
    rois = queries.new_empty(queries.shape[1], 5)
    for stage in range(head.num_stages):
        regions = head.bbox_roi_extractor[stage](features[:1], rois)
        _, _, queries, attended = head.bbox_head[stage](regions, queries)
        if head.with_mask:
            head._mask_forward(stage, features[:1], rois, attended.flatten(0, 1))


def _forward_hybrid(
    head: nn.Module, features: tuple[Tensor, ...], rois: Tensor, masks: int
) -> None:
    """Run Hybrid Task Cascade, whose last stage runs the mask heads of all."""
    semantic = head.semantic_head(features)[1] if head.with_semantic else None
    for stage in range(head.num_stages):
        head._bbox_forward(stage, features[:1], rois, semantic_feat=semantic)
    if head.with_mask:
        head._mask_forward(-1, features[:1], rois[:masks], semantic_feat=semantic, training=False)


def _boxes_and_masks(
    head: nn.Module, features: tuple[Tensor, ...], rois: Tensor, masks: int, *stage: int
) -> None:
    head._bbox_forward(*stage, features[:1], rois)
    if head.with_mask:
        head._mask_forward(*stage, features[:1], rois[:masks])
