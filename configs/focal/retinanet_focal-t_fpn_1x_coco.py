"""RetinaNet with Focal-T on COCO, 12 epochs.

Focal Transformer, Table 10: 43.7 box AP, 39.4 M parameters, 265 G FLOPs. Not run by this project.
Recipe: sec. 4.2, with warm-up and steps as in Swin's detectors; the authors' detection code is not
published. Images at a single scale, the shorter side at 800.
"""

_base_ = ['../_base_/recipes/retinanet_1x_coco.py']

# A checkpoint of focal-t_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/focal-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FocalTransformer',
        arch='tiny',
        focal_windows=(15, 13, 9, 7),
        expand_always=True,
        neighbor_boundary='mask',
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[192, 384, 768]),
)
