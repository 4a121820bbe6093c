"""Mask R-CNN with Twins-SVT-S on COCO, 12 epochs.

L2ViT, Table 4: 43.4 box AP, 40.3 mask AP, 44 M parameters, 245 G FLOPs. Not run by this project.
Trained like Swin here.
"""

_base_ = ['../_base_/recipes/mask-rcnn_1x_coco.py']

# A checkpoint of twins-svt-s_8xb128_in1k.py.
pretrained = 'checkpoints/twins-svt-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmpretrain.SVT',
        out_indices=(0, 1, 2, 3),
        arch='small',
        qkv_bias=True,
        norm_after_stage=[False, False, False, True],
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[64, 128, 256, 512]),
)
