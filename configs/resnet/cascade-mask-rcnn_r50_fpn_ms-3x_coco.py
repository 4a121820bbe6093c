"""Cascade Mask R-CNN with ResNet-50 on COCO, 36 epochs.

Focal Transformer, Table 5 (from Swin's paper): 46.3 box AP, 82.0 M parameters, 739 G FLOPs. Not run
by this project. Trained like Swin-T, with AdamW: Swin's paper compares the two so.
"""

_base_ = ['../_base_/recipes/cascade-mask-rcnn_ms-3x_coco.py']

# torchvision's ResNet-50.
pretrained = 'checkpoints/resnet50-0676ba61.pth'
model = dict(
    backbone=dict(
        type='mmflatten.AttentionResNet',
        depth=50,
        frozen_stages=1,
        norm_eval=True,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained),
    ),
    neck=dict(in_channels=[256, 512, 1024, 2048]),
)
