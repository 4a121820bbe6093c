"""Cascade Mask R-CNN with FLatten-Swin-S on COCO, 36 epochs.

FLatten Transformer, Table 2b: 52.2 box AP, 45.4 mask AP, 108 M parameters, 841 G FLOPs. Not run by
this project. Trained like FLatten-Swin-T, with the same lab's drop path of 0.1 for S too (Swin's
own is 0.2).
"""

_base_ = ['../_base_/recipes/cascade-mask-rcnn_ms-3x_coco.py']

# A checkpoint of flatten-swin-s_8xb128_in1k.py.
pretrained = 'checkpoints/flatten-swin-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='small',
        attn_types='LLSS',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)
