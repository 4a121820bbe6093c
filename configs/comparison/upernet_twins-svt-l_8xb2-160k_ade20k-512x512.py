"""UperNet with Twins-SVT-L on ADE20K, 160 000 iterations.

L2ViT, Table 5: 48.8 mIoU, 133 M parameters, 1188 G FLOPs. Not run by this project. Trained like
Swin here.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

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
    decode_head=dict(in_channels=[128, 256, 512, 1024]),
    auxiliary_head=dict(in_channels=512),
)
