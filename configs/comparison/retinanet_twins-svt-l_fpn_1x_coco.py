"""RetinaNet with Twins-SVT-L on COCO, 12 epochs.

L2ViT, Table 4: 45.7 box AP, 111 M parameters, 455 G FLOPs. Not run by this project. Trained like
Swin here.
"""

_base_ = ['../_base_/recipes/retinanet_1x_coco.py']

# A checkpoint of twins-svt-l_8xb128_in1k.py.
pretrained = 'checkpoints/twins-svt-l_in1k.pth'
model = dict(
    backbone=dict(
        type='mmpretrain.SVT',
        arch='large',
        qkv_bias=True,
        norm_after_stage=[False, False, False, True],
        drop_path_rate=0.5,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[256, 512, 1024]),
)
