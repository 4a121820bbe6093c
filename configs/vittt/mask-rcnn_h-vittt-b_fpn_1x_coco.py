"""Mask R-CNN with H-ViT^3-B on COCO, 12 epochs.

ViT^3, README: 50.0 box AP, 44.6 mask AP, 510 G FLOPs at 800 x 1280. Not run by this project.
Inferred: it trains like Agent-Swin, of the same lab, with the drop path of the classifier.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-1x_coco.py']

# A checkpoint of h-vittt-b_8xb128_in1k.py.
pretrained = 'checkpoints/h-vittt-b_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.HViTTT',
        arch='base',
        drop_path_rate=0.5,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 448, 640]),
)
