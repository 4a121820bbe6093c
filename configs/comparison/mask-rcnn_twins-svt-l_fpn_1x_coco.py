"""Mask R-CNN with Twins-SVT-L on COCO, 12 epochs.

L2ViT, Table 4: 45.9 box AP, 41.6 mask AP, 120 M parameters, 474 G FLOPs. Not run by this project.
Trained like Swin here.
"""

_base_ = ['../_base_/recipes/mask-rcnn_1x_coco.py']

# A checkpoint of twins-svt-l_8xb128_in1k.py.
pretrained = 'checkpoints/twins-svt-l_in1k.pth'
model = dict(
    backbone=dict(
        type='mmpretrain.SVT',
        out_indices=(0, 1, 2, 3),
        arch='large',
        qkv_bias=True,
        norm_after_stage=[False, False, False, True],
        drop_path_rate=0.5,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[128, 256, 512, 1024]),
)
