"""Mask R-CNN with H-ViT^3-S on COCO, 36 epochs.

ViT^3, README: 50.5 box AP, 45.0 mask AP. Not run by this project. Inferred: it trains like
Agent-Swin, of the same lab, with the drop path of the classifier.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-3x_coco.py']

# A checkpoint of h-vittt-s_8xb128_in1k.py.
pretrained = 'checkpoints/h-vittt-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.HViTTT',
        arch='small',
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[64, 128, 320, 512]),
)
