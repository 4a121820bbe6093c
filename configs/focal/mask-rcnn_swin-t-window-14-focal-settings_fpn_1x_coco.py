"""Mask R-CNN with Swin-T in windows of 14 x 14 on COCO, 12 epochs, settings of mask-rcnn_focal-t.

For a comparison with Focal-T under the same settings (Focal Transformer, Table 6): a single scale,
drop path 0.2. In Swin's own recipe it is mask-rcnn_swin-t-window-14_fpn_1x_coco.py. Not run by
this project.
"""

_base_ = ['../_base_/recipes/mask-rcnn_1x_coco.py']

# A checkpoint of swin-t_8xb128_in1k_window-14.py.
pretrained = 'checkpoints/swin-t-window-14_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='SSSS',
        softmax_window=14,
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)
