"""Mask R-CNN with RAVLT-S on COCO, 12 epochs.

RALA, README: 49.8 box AP, 44.6 mask AP, 262 G FLOPs at 800 x 1280. Not run by this project.
Inferred: it trains like FLatten-Swin at a single scale, with the drop path of the classifier.
"""

_base_ = ['../_base_/recipes/mask-rcnn_1x_coco.py']

# A checkpoint of ravlt-s_8xb128_in1k.py.
pretrained = 'checkpoints/ravlt-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='small',
        drop_path_rate=0.15,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[64, 128, 320, 512]),
)
