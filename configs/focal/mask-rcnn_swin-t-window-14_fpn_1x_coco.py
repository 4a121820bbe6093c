"""Mask R-CNN with Swin-T in windows of 14 x 14 on COCO, 12 epochs.

Focal Transformer, Table 6: 44.0 box AP, 40.5 mask AP (43.7 and 39.8 with 7 x 7). Not run by this
project. Recipe: Swin's 1x, as behind the row that it stands beside: many scales, half of the images
cropped first, drop path 0.1.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-1x_coco.py']

# A checkpoint of swin-t_8xb128_in1k_window-14.py.
pretrained = 'checkpoints/swin-t-window-14_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='SSSS',
        softmax_window=14,
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)
