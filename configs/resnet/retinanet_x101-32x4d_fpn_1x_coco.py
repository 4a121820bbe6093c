"""RetinaNet with ResNeXt-101 32x4d on COCO, 12 epochs.

Focal Transformer, Tables 3 and 10: 39.9 box AP, 56.4 M parameters, 319 G FLOPs; L2ViT, Table 4, has
them too. Not run by this project.
Recipe: mmdet's for 12 epochs; the paper does not say where its figures are from.
"""

_base_ = ['../_base_/recipes/retinanet_1x-sgd_coco.py']

# mmcv's ResNeXt-101 32x4d (open-mmlab).
pretrained = 'checkpoints/resnext101_32x4d-a5af3160.pth'
model = dict(
    backbone=dict(
        type='mmflatten.AttentionResNeXt',
        depth=101,
        groups=32,
        base_width=4,
        frozen_stages=1,
        norm_eval=True,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained),
    ),
    neck=dict(in_channels=[512, 1024, 2048]),
)
