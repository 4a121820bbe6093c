"""Mask R-CNN with MILA-T on COCO, 36 epochs.

MILA, README: 48.8 box AP, 43.8 mask AP. Not run by this project. Inferred: it trains like
Agent-Swin, of the same lab, with the drop path of the classifier.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-3x_coco.py']

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
