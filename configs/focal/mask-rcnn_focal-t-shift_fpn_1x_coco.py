"""Mask R-CNN with Focal-T and shifted windows on COCO, 12 epochs.

Focal Transformer, Table 7: 44.9 box AP, 41.1 mask AP (44.8 and 41.0 without shift). Not run by this
project. Trained like Focal-T.
"""

_base_ = ['../_base_/recipes/mask-rcnn_1x_coco.py']

# A checkpoint of focal-t_8xb128_in1k_shift.py.
pretrained = 'checkpoints/focal-t-shift_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FocalTransformer',
        arch='tiny',
        shift=True,
        focal_windows=(15, 13, 9, 7),
        expand_always=True,
        neighbor_boundary='mask',
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)
