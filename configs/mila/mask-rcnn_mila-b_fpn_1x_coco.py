"""Mask R-CNN with MILA-B on COCO, 12 epochs.

MILA, README: 50.5 box AP, 45.0 mask AP, 502 G FLOPs at 800 x 1280. Not run by this project.
Inferred: it trains like Agent-Swin, of the same lab, with the drop path of the classifier.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-1x_coco.py']

# A checkpoint of mila-b_8xb64_in1k.py.
pretrained = 'checkpoints/mila-b_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.MLLA',
        arch='base',
        drop_path_rate=0.5,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)
