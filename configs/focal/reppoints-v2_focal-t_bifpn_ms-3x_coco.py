"""RepPoints V2 with Focal-T on COCO, 36 epochs.

Focal Transformer, Table 5: 51.2 box AP, 45.4 M and 491 G FLOPs. Not run by this project. Recipe:
sec. 4.2, and otherwise that of Swin's release for its Swin-T, which sec. 4.2 follows:
reppoints-v2_swin-t_bifpn_ms-3x_coco.py. The authors' detection code is not published, and their
figures fit another neck and head (docs/model_zoo.md).
"""

_base_ = ['../_base_/recipes/reppoints-v2_ms-3x_coco.py']

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
