"""Mask R-CNN with Focal-T without pooled windows on COCO, 12 epochs.

Focal Transformer, Figure 5: a bar without a printed number (44.8 box AP for Focal-T, Table 10). Not
run by this project. Trained like Focal-T.
"""

_base_ = ['../_base_/recipes/mask-rcnn_1x_coco.py']

# A checkpoint of focal-t_8xb128_in1k_local.py.
pretrained = 'checkpoints/focal-t-local_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FocalTransformer',
        arch='tiny',
        global_=False,
        focal_windows=(15, 13, 9, 7),
        expand_always=True,
        neighbor_boundary='mask',
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)
