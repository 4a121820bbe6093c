"""Mask R-CNN with Swin-T on COCO, 12 epochs, settings of mask-rcnn_focal-t.

For a comparison with Focal-T under the same settings (Focal Transformer, Tables 6 to 8): a single
scale, drop path 0.2. In its own recipe it is mask-rcnn_swin-t_fpn_1x_coco.py. Not run by this
project.
"""

_base_ = ['../_base_/recipes/mask-rcnn_1x_coco.py']

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
