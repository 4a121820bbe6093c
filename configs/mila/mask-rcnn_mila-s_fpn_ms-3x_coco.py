"""Mask R-CNN with MILA-S on COCO, 36 epochs.

MILA, README: 50.5 box AP, 44.9 mask AP. Not run by this project. Inferred: it trains like
Agent-Swin, of the same lab, with the drop path of the classifier.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-3x_coco.py']

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
