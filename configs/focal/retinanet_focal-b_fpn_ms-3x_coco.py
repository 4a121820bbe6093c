"""RetinaNet with Focal-B on COCO, 36 epochs.

Focal Transformer, Table 4: 46.9 box AP, 100.8 M parameters, 514 G FLOPs. Not run by this project.
"""

_base_ = ['../_base_/recipes/retinanet_ms-3x_coco.py']

# A checkpoint of focal-b_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/focal-b_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FocalTransformer',
        arch='base',
        focal_windows=(15, 13, 9, 7),
        expand_always=True,
        neighbor_boundary='mask',
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[256, 512, 1024]),
)
