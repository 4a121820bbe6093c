"""Mask R-CNN with Swin-S on COCO, 36 epochs.

Focal Transformer, Table 4: 48.5 box AP, 43.3 mask AP, 69.1 M parameters, 354 G FLOPs. Not run by
this project. The figures are Swin's own, and so are scales and drop path.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-3x_coco.py']

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
