"""Cascade R-CNN with ResNet-101 on COCO, 12 epochs.

Factorized Attention, Table 5: 42.8 box AP. Not run by this project. Recipe: mmdet's for 12 epochs;
the paper copies the figure from Cascade R-CNN's.
"""

_base_ = ['../_base_/recipes/cascade-rcnn_1x-sgd_coco.py']

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
