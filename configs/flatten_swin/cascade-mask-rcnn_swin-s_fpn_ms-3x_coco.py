"""Cascade Mask R-CNN with Swin-S on COCO, 36 epochs.

FLatten Transformer, Table 2b: 51.9 box AP, 45.0 mask AP, 107 M parameters, 838 G FLOPs. Not run by
this project.
Recipe: Swin's own, with a drop path of 0.2 (FLatten-Swin-S here: 0.1).
"""

_base_ = ['../_base_/recipes/cascade-mask-rcnn_ms-3x_coco.py']

# A checkpoint of swin-s_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/swin-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='small',
        attn_types='SSSS',
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)
