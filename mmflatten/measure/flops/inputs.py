"""What a model of each task is fed when it is counted: image sizes, and a forward pass without data-dependent steps.

Another task is one more entry of `FORWARDS` and `DEFAULT_SHAPES`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from mmengine.config import Config
from mmengine.model import BaseModel
from torch import Tensor, nn

NUM_PROPOSALS = 1000  # through the box head of a two-stage detector
NUM_MASKS = 100  # through its mask head: as many as mmdet keeps of the boxes

# (H, W) the papers quote their numbers at; for stereo, the crop that PSMNet trains on.
DEFAULT_SHAPES = {'mmpretrain': (224, 224), 'mmdet': (800, 1280), 'mmseg': (512, 2048), 'mmflatten': (256, 512)}


def image_shape(cfg: Config) -> tuple[int, int]:
    """(H, W) of the images a config trains on, as its preprocessor or its backbone is told, else the usual ones."""
    preprocessor, backbone = (cfg.model.get(part) or {} for part in ('data_preprocessor', 'backbone'))
    size = preprocessor.get('size') or backbone.get('img_size') or DEFAULT_SHAPES[cfg.default_scope]
    return (size, size) if isinstance(size, int) else tuple(size)


def library_of(model: nn.Module) -> str:
    """The library whose kind of model this is, or '' for a plain module.

    'mmpretrain', 'mmdet' and 'mmseg' by the base class, wherever the class itself is from; 'mmflatten' for the whole
    models of this project, which are stereo models. Its backbones are plain modules.
    """
    roots = (cls.__module__.split('.')[0] for cls in reversed(type(model).__mro__))
    known = (root for root in roots if root in FORWARDS and (root != 'mmflatten' or isinstance(model, BaseModel)))
    return next(known, '')


def dummy_forward(model: nn.Module, shape: tuple[int, int]) -> None:
    """Run a model on the meta device once, from an image of `shape` = (H, W), or a stereo pair, to its raw outputs."""
    image = torch.empty(1, 3, *shape, device='meta')
    FORWARDS.get(library_of(model), nn.Module.__call__)(model, image)


def detection_samples(image: Tensor) -> list:
    """What mmdet wants to know of a batch that is neither resized nor padded."""
    from mmdet.structures import DetDataSample
    size = tuple(image.shape[-2:])
    meta = dict(img_shape=size, batch_input_shape=size, pad_shape=size, ori_shape=size, scale_factor=(1., 1.))
    return [DetDataSample(metainfo=meta) for _ in image]


def _detect(model: nn.Module, image: Tensor) -> None:
    if not getattr(model, 'with_roi_head', False):
        model._forward(image, detection_samples(image))
        return
    from mmdet.models import roi_heads
    head, features = model.roi_head, model.extract_feat(image)
    if isinstance(head, roi_heads.SparseRoIHead):
        _sparse_roi_head(head, features, model.rpn_head.init_proposal_features.weight[None])
        return
    model.rpn_head(features)
    rois = image.new_empty(NUM_PROPOSALS, 5)
    if isinstance(head, roi_heads.HybridTaskCascadeRoIHead):
        _htc_roi_head(head, features, rois)
    elif isinstance(head, roi_heads.CascadeRoIHead):
        for stage in range(head.num_stages):
            _boxes_and_masks(head, features, rois, stage)
    elif isinstance(head, roi_heads.StandardRoIHead):
        _boxes_and_masks(head, features, rois)
    else:
        raise ValueError(f'cannot count RoI head {type(head).__name__}: it must be derived from the standard, cascade, '
                         'HTC or Sparse R-CNN head of mmdet')


# The heads get regions of the finest map only: extractors sort those of several maps by a size that is unknown here.


def _boxes_and_masks(head: nn.Module, features: tuple[Tensor, ...], rois: Tensor, *stage: int) -> None:
    head._bbox_forward(*stage, features[:1], rois)
    if head.with_mask:
        head._mask_forward(*stage, features[:1], rois[:NUM_MASKS])


def _htc_roi_head(head: nn.Module, features: tuple[Tensor, ...], rois: Tensor) -> None:
    semantic = head.semantic_head(features)[1] if head.with_semantic else None
    for stage in range(head.num_stages):
        head._bbox_forward(stage, features[:1], rois, semantic_feat=semantic)
    if head.with_mask:
        head._mask_forward(-1, features[:1], rois[:NUM_MASKS], semantic_feat=semantic, training=False)


def _sparse_roi_head(head: nn.Module, features: tuple[Tensor, ...], queries: Tensor) -> None:
    """Sparse R-CNN: its own number of learned proposals, whose features pass from stage to stage."""
    rois = queries.new_empty(queries.shape[1], 5)
    for stage in range(head.num_stages):
        regions = head.bbox_roi_extractor[stage](features[:1], rois)
        _, _, queries, attended = head.bbox_head[stage](regions, queries)
        if head.with_mask:
            head._mask_forward(stage, features[:1], rois, attended.flatten(0, 1))


FORWARDS: dict[str, Callable[[nn.Module, Tensor], Any]] = {
    'mmpretrain': lambda model, image: model(image, mode='tensor'),
    'mmdet': _detect,
    'mmseg': lambda model, image: model._forward(image),
    'mmflatten': lambda model, pair: model(dict(left=pair, right=pair), mode='tensor'),
}
