"""Mask R-CNN with Focal-T in windows of 14 x 14 on COCO, 12 epochs.

Focal Transformer, Table 6: 45.5 box AP, 41.5 mask AP (44.9 and 41.1 with 7 x 7). Not run by this
project. Trained like Focal-T.
"""

_base_ = ['../_base_/recipes/mask-rcnn_1x_coco.py']

# A checkpoint of focal-t_8xb128_in1k_window-14.py.
pretrained = 'checkpoints/focal-t-window-14_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FocalTransformer',
        arch='tiny',
        window_size=14,
        focal_windows=(15, 13, 9, 7),
        expand_always=True,
        neighbor_boundary='mask',
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)
