"""Mask R-CNN with Enhanced Swin-T v1 on COCO, 12 epochs.

L2ViT, Table 6: 44.7 box AP (L2ViT-T: 45.5). Not run by this project. Trained like L2ViT-T.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-1x_coco.py']

# A checkpoint of enhanced-swin-t-v1_32xb128_in1k.py.
pretrained = 'checkpoints/enhanced-swin-t-v1_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.L2ViT',
        arch='tiny',
        block_order='WV',
        conv_stem=False,
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)

optim_wrapper = dict(paramwise_cfg=None)  # everything decays
