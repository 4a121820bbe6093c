"""RetinaNet with Twins-SVT-B on COCO, 12 epochs.

L2ViT, Table 4: 45.3 box AP, 67 M parameters, 337 G FLOPs. Not run by this project. Trained like
Swin here.
"""

_base_ = ['../_base_/recipes/retinanet_1x_coco.py']

# A checkpoint of twins-svt-b_8xb128_in1k.py.
pretrained = 'checkpoints/twins-svt-b_in1k.pth'
model = dict(
    backbone=dict(
        type='mmpretrain.SVT',
        arch='base',
        qkv_bias=True,
        norm_after_stage=[False, False, False, True],
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[192, 384, 768]),
)
