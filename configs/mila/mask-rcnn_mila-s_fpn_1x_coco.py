"""Mask R-CNN with MILA-S on COCO, 12 epochs.

MILA, README: 49.2 box AP, 44.2 mask AP, 319 G FLOPs at 800 x 1280. Not run by this project.
Inferred: it trains like Agent-Swin, of the same lab, with the drop path of the classifier.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-1x_coco.py']

# A checkpoint of mila-s_8xb64_in1k.py.
pretrained = 'checkpoints/mila-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.MLLA',
        arch='small',
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[64, 128, 256, 512]),
)
