"""Mask R-CNN with Swin-T on COCO, 36 epochs.

FLatten Transformer, Table 2a: 46.0 box AP, 41.6 mask AP, 48 M parameters, 267 G FLOPs. Not run by
this project.
Recipe: Swin's own, with a drop path of 0.2 (FLatten-Swin-T here: 0.1).
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-3x_coco.py']

# A checkpoint of swin-t_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/swin-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='SSSS',
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)
