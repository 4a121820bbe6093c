"""Mask R-CNN with MILA-T on COCO, 12 epochs.

MILA, README: 46.8 box AP, 42.1 mask AP, 44 M parameters, 255 G FLOPs at 800 x 1280. Not run by this
project. Inferred: it trains like Agent-Swin, of the same lab, with the drop path of the classifier.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-1x_coco.py']

# A checkpoint of mila-t_8xb128_in1k.py.
pretrained = 'checkpoints/mila-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.MLLA',
        arch='tiny',
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[64, 128, 256, 512]),
)
