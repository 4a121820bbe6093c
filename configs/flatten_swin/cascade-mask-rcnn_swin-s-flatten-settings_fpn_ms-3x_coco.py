"""Cascade Mask R-CNN with Swin-S on COCO, 36 epochs, settings of cascade-mask-rcnn_flatten-swin-s.

The baseline for a comparison in "the exact same settings" (FLatten Transformer, sec. 5.1); in its
own recipe it is cascade-mask-rcnn_swin-s_fpn_ms-3x_coco.py. Not run by this project.
"""

_base_ = ['../_base_/recipes/cascade-mask-rcnn_ms-3x_coco.py']

# A checkpoint of swin-s_8xb128_in1k.py.
pretrained = 'checkpoints/swin-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='small',
        attn_types='SSSS',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)
