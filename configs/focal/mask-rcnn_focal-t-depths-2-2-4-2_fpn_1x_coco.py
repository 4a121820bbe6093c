"""Mask R-CNN with Focal-T of depths 2-2-4-2 on COCO, 12 epochs.

Focal Transformer, Table 8: 43.3 box AP, 39.8 mask AP (44.8 and 41.0 with 2-2-6-2). Not run by this
project. Trained like Focal-T.
"""

_base_ = ['../_base_/recipes/mask-rcnn_1x_coco.py']

# A checkpoint of focal-t_8xb128_in1k_depths-2-2-4-2.py.
pretrained = 'checkpoints/focal-t-depths-2-2-4-2_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FocalTransformer',
        arch=dict(embed_dims=96, depths=(2, 2, 4, 2), num_heads=(3, 6, 12, 24)),
        focal_windows=(15, 13, 9, 7),
        expand_always=True,
        neighbor_boundary='mask',
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)
