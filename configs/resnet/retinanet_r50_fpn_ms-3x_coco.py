"""RetinaNet with ResNet-50 on COCO, 36 epochs.

Focal Transformer, Table 4: 39.0 box AP, 37.7 M parameters, 239 G FLOPs. Not run by this project.
Recipe: mmdet's for 36 epochs, with PVT's sizes of images; the paper does not say where its figures
are from.
"""

_base_ = ['../_base_/recipes/retinanet_ms-3x-sgd_coco.py']

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
    neck=dict(in_channels=[512, 1024, 2048]),
)
