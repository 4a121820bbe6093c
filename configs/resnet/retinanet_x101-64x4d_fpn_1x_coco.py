"""RetinaNet with ResNeXt-101 64x4d on COCO, 12 epochs.

Focal Transformer, Tables 3 and 10: 41.0 box AP, 95.5 M parameters, 473 G FLOPs; L2ViT, Table 4, has
them too. Not run by this project.
Recipe: mmdet's for 12 epochs; the paper does not say where its figures are from.
"""

_base_ = ['../_base_/recipes/retinanet_1x-sgd_coco.py']

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
    neck=dict(in_channels=[512, 1024, 2048]),
)
