"""UperNet with Twins-SVT-B on ADE20K, 160 000 iterations.

L2ViT, Table 5: 47.4 mIoU, 89 M parameters, 1044 G FLOPs. Not run by this project. Trained like Swin
here.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

# A checkpoint of twins-svt-b_8xb128_in1k.py.
pretrained = 'checkpoints/twins-svt-b_in1k.pth'
model = dict(
    backbone=dict(
        type='mmpretrain.SVT',
        out_indices=(0, 1, 2, 3),
        arch='base',
        qkv_bias=True,
        norm_after_stage=[False, False, False, True],
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(in_channels=[96, 192, 384, 768]),
    auxiliary_head=dict(in_channels=384),
)
