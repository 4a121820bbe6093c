"""Mask R-CNN with Swin-T of depths 2-2-4-2 on COCO, 12 epochs.

Focal Transformer, Table 8: 41.2 box AP, 38.1 mask AP (43.7 and 39.8 with 2-2-6-2). Not run by this
project. Recipe: Swin's 1x, as behind the row that it stands beside: many scales, half of the images
cropped first, drop path 0.1.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-1x_coco.py']

# A checkpoint of swin-t_8xb128_in1k_depths-2-2-4-2.py.
pretrained = 'checkpoints/swin-t-depths-2-2-4-2_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch=dict(embed_dims=96, depths=(2, 2, 4, 2), num_heads=(3, 6, 12, 24)),
        attn_types='SSSS',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)
