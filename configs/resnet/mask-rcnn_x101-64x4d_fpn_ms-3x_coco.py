"""Mask R-CNN with ResNeXt-101 64x4d on COCO, 36 epochs.

Focal Transformer, Table 4: 44.4 box AP, 39.7 mask AP, 102 M parameters, 493 G FLOPs. Not run by
this project. Recipe: mmdet's for 36 epochs, with PVT's sizes of images; the paper does not say
where its figures are from.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-3x-sgd_coco.py']

# torchvision's ResNeXt-101 64x4d.
pretrained = 'checkpoints/resnext101_64x4d-173b62eb.pth'
model = dict(
    backbone=dict(
        type='mmflatten.AttentionResNeXt',
        depth=101,
        groups=64,
        base_width=4,
        frozen_stages=1,
        norm_eval=True,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained),
    ),
    neck=dict(in_channels=[256, 512, 1024, 2048]),
)
