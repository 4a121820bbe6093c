"""Mask R-CNN on the frozen map of a DINOv2 ViT-S/14 on 500 garment scenes, seen twice.

Run by this project with other attentions: docs/checkpoints.md. No weights by default; set
model.backbone.init_cfg.
"""

_base_ = [
    '../../../configs/_base_/models/mask-rcnn_fpn_nano.py',
    '../_base_/datasets/garments_coco.py',
    '../../../configs/_base_/schedules/digits_6e.py',
    '../../../configs/_base_/default_runtime.py',
]
strides = [3.5, 7, 14, 28]
model = dict(
    backbone=dict(
        type='mmflatten.ViT',
        arch='dinov2-small',
        out_type='featmap',
        output_norm='shared',
        frozen_stages=12,
    ),
    neck=dict(
        _delete_=True,
        type='mmflatten.SimpleFeaturePyramid',
        in_channels=384,
        out_channels=48,
        num_outs=4,
    ),
    rpn_head=dict(anchor_generator=dict(strides=strides, ratios=[0.5, 1.0, 2.0])),
    roi_head=dict(
        bbox_roi_extractor=dict(featmap_strides=strides),
        mask_roi_extractor=dict(featmap_strides=strides),
    ),
)

train_dataloader = dict(
    batch_size=4, num_workers=0, persistent_workers=False, dataset=dict(indices=500)
)
val_dataloader = dict(num_workers=0, persistent_workers=False)
test_dataloader = dict(num_workers=0, persistent_workers=False)
train_cfg = dict(max_epochs=2, val_interval=2)
param_scheduler = [dict(type='CosineAnnealingLR', by_epoch=True, end=2, convert_to_iter_based=True)]
randomness = dict(seed=0)
