"""Mask R-CNN with RAVLT-B on COCO, 12 epochs.

RALA, README: 51.2 box AP, 45.7 mask AP, 372 G FLOPs at 800 x 1280. Not run by this project.
Inferred: it trains like FLatten-Swin at a single scale, with the drop path of the classifier.
"""

_base_ = ['../_base_/recipes/mask-rcnn_1x_coco.py']

# A checkpoint of ravlt-b_8xb128_in1k.py.
pretrained = 'checkpoints/ravlt-b_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='base',
        layer_scale=(1.0, 1.0, 1e-6, 1e-6),
        drop_path_rate=0.4,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 512]),
)
