"""Mask R-CNN with ResNet-101 on COCO, 36 epochs.

Focal Transformer, Table 4: 42.8 box AP, 38.5 mask AP, 63.2 M parameters, 336 G FLOPs. Not run by
this project. Recipe: mmdet's for 36 epochs, with PVT's sizes of images; the paper does not say
where its figures are from.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-3x-sgd_coco.py']

# torchvision's ResNet-101.
pretrained = 'checkpoints/resnet101-63fe2227.pth'
model = dict(
    backbone=dict(
        type='mmflatten.AttentionResNet',
        depth=101,
        frozen_stages=1,
        norm_eval=True,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained),
    ),
    neck=dict(in_channels=[256, 512, 1024, 2048]),
)
