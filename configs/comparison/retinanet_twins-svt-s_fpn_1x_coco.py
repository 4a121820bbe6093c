"""RetinaNet with Twins-SVT-S on COCO, 12 epochs.

L2ViT, Table 4: 43.0 box AP, 34 M parameters, 216 G FLOPs. Not run by this project. Trained like
Swin here.
"""

_base_ = ['../_base_/recipes/retinanet_1x_coco.py']

# A checkpoint of twins-svt-s_8xb128_in1k.py.
pretrained = 'checkpoints/twins-svt-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmpretrain.SVT',
        arch='small',
        qkv_bias=True,
        norm_after_stage=[False, False, False, True],
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[128, 256, 512]),
)
