"""Mask R-CNN with Swin-T of depths 2-2-2-2 on COCO, 12 epochs, settings of mask-rcnn_focal-t.

For a comparison with Focal-T under the same settings (Focal Transformer, Table 8): a single scale,
drop path 0.2. In Swin's own recipe it is mask-rcnn_swin-t-depths-2-2-2-2_fpn_1x_coco.py. Not run by
this project.
"""

_base_ = ['../_base_/recipes/mask-rcnn_1x_coco.py']

# A checkpoint of swin-t_8xb128_in1k_depths-2-2-2-2.py.
pretrained = 'checkpoints/swin-t-depths-2-2-2-2_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch=dict(embed_dims=96, depths=(2, 2, 2, 2), num_heads=(3, 6, 12, 24)),
        attn_types='SSSS',
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)
