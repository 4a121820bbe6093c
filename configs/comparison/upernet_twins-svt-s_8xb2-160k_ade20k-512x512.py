"""UperNet with Twins-SVT-S on ADE20K, 160 000 iterations.

L2ViT, Table 5: 46.2 mIoU, 54 M parameters, 912 G FLOPs. Not run by this project. Trained like Swin
here.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

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
    decode_head=dict(in_channels=[64, 128, 256, 512]),
    auxiliary_head=dict(in_channels=256),
)
