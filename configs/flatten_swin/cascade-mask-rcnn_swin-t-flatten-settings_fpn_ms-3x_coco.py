"""Cascade Mask R-CNN with Swin-T on COCO, 36 epochs, settings of cascade-mask-rcnn_flatten-swin-t.

The baseline for a comparison in "the exact same settings" (FLatten Transformer, sec. 5.1); in its
own recipe it is cascade-mask-rcnn_swin-t_fpn_ms-3x_coco.py. Not run by this project.
"""

_base_ = ['../_base_/recipes/cascade-mask-rcnn_ms-3x_coco.py']

# A checkpoint of swin-t_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/swin-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='SSSS',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)
