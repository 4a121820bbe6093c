"""Mask R-CNN with Swin-T without shifts on COCO, 12 epochs, settings of mask-rcnn_focal-t.

For a comparison with Focal-T under the same settings (Focal Transformer, Table 7): a single scale,
drop path 0.2. In Swin's own recipe it is mask-rcnn_swin-t-no-shift_fpn_1x_coco.py. Not run by
this project.
"""

_base_ = ['../_base_/recipes/mask-rcnn_1x_coco.py']

# A checkpoint of swin-t_8xb128_in1k_no-shift.py.
pretrained = 'checkpoints/swin-t-no-shift_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='SSSS',
        shift=False,
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)
