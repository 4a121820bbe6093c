"""RetinaNet with Focal-S on COCO, 12 epochs.

Focal Transformer, Table 10: 45.6 box AP, 61.7 M parameters, 367 G FLOPs. Not run by this project.
"""

_base_ = ['../_base_/recipes/retinanet_1x_coco.py']

# A checkpoint of focal-s_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/focal-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FocalTransformer',
        arch='small',
        focal_windows=(15, 13, 9, 7),
        expand_always=True,
        neighbor_boundary='mask',
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[192, 384, 768]),
)
